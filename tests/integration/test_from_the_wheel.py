"""Programs that run an application of an index in an environment of its own run the demo from the wheel."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.wheels import PIP, python, ran

SECONDS = 30.0
LAST = "50000 flights in, 50000 accounted for, 0 lost, 0 repeated"
RUNNERS = {"uvx": ["uvx", "--from"], "pipx": ["pipx", "run", "--spec"]}


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs."""
    folder = tmp_path_factory.mktemp("runners")
    ran(sys.executable, "-m", "venv", folder, cwd=folder)
    ran(python(folder), *PIP, "install", "uv", "pipx", cwd=folder)
    return folder / "bin"


def spent() -> float:
    """Seconds of a processor in processes that ended, and in those that they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.timeout(400)
@pytest.mark.parametrize("runner", RUNNERS)
def test_the_demo_runs_from_the_wheel_within_thirty_seconds(
    runner: str, runners: Path, built: tuple[Path, Path], tmp_path: Path
) -> None:
    """Of a processor, which is what a machine without other work takes. What the wheel requires is in the cache: a
    first command fetched it, which takes as long as the network does."""
    program, *options = RUNNERS[runner]
    homes = {"UV_CACHE_DIR": "uv", "PIPX_HOME": "pipx", "XDG_CACHE_HOME": "cache"}
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environ |= {name: str(tmp_path / folder) for name, folder in homes.items()}

    def sluicegate(*arguments: str) -> str:
        command = [str(runners / program), *options, str(built[1]), "sluicegate", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=170)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert sluicegate("version").startswith("sluicegate ")
    before = spent()
    assert sluicegate("demo").splitlines()[-1] == LAST
    assert 1.0 < spent() - before < SECONDS
