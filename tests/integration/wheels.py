"""The distributions, built as a release builds them, and the programs of a virtual environment."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.servers import Unavailable, jars

PROJECT = Path(__file__).resolve().parents[2]
PACKAGED = (
    "sluicegate",
    "streams",
    "connectors",
    "schemas",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "MANIFEST.in",
)
TAGGED = "9.8.7"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "10")


def ran(*command: str | Path, cwd: Path) -> str:
    """What the command prints; it must succeed. The environment's own Python path is not used."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environ, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def interpreter(minor: int) -> Path:
    """The program of Python 3.`minor`: the machine's own, or one that Maven brings. Skips the test if there is none."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in (shutil.which(f"python3.{minor}"), *sorted(versions.glob(f"3.{minor}.*/bin/python3"))):
        if path and not subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode:
            return Path(path)
    if minor not in jars.PYTHONS:
        pytest.skip(f"no Python 3.{minor} on this machine")
    try:
        return jars.python(minor)
    except Unavailable as error:
        pytest.skip(f"no Python 3.{minor} on this machine, and {error}")


def python(folder: Path) -> Path:
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def source_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the distributions are made of, since a build writes into its tree; tagged in git."""
    folder = tmp_path_factory.mktemp("source")
    for name in PACKAGED:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / name, folder / name)
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", f"v{TAGGED}"]):
        ran("git", *who, *command, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what builds."""
    folder = tmp_path_factory.mktemp("builder")
    required = tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]["requires"]
    ran(sys.executable, "-m", "venv", folder, cwd=folder)
    ran(python(folder), *PIP, "install", "build", "twine", *required, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def built(source_tree: Path, builder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built of it and of nothing else."""
    folder = tmp_path_factory.mktemp("dist")
    ran(python(builder), "-m", "build", "--no-isolation", "--outdir", folder, cwd=source_tree)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))
