"""A signal in the first moments of `sluicegate run` ends it with 0."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: early
kafka: {bootstrap.servers: embedded}
store: memory://
http: false
agents:
  pairs:
    from: in
    aggregate: {count: 2}
    to: {topic: out}
"""
MOMENTS = range(0, 1501, 75)
"""Milliseconds after the process has installed its first handler."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "early.yaml"
    path.write_text(FILE)
    return str(path)


def listens(pid: int, number: signal.Signals) -> bool:
    """Has this process a handler for the signal? The interpreter needs some 30 ms until any code of ours runs."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says which signals are handled")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_any_early_moment_ends_the_run_with_0(file: str, number: signal.Signals) -> None:
    codes = {}
    for moment in MOMENTS if number == signal.SIGTERM else MOMENTS[::5]:
        process = subprocess.Popen([SLUICEGATE, "run", file], stderr=subprocess.PIPE, text=True)
        wait_until(lambda pid=process.pid: listens(pid, signal.SIGTERM), what="a handler", pause=0.001)
        then = time.monotonic() + moment / 1000
        wait_until(lambda then=then: time.monotonic() >= then, what="the moment", pause=0.001)
        process.send_signal(number)
        noise = process.communicate(timeout=30)[1]
        codes[moment] = process.returncode
        assert "Traceback" not in noise
    assert set(codes.values()) == {0}, codes


def test_it_listens_before_it_imports_anything_large(file: str) -> None:
    output = subprocess.run(
        [sys.executable, "-X", "importtime", SLUICEGATE, "check", file], capture_output=True, text=True, timeout=60
    ).stderr
    names = [line.rpartition("|")[2].strip() for line in output.splitlines() if line.startswith("import time:")]
    first = names.index("sluicegate.streams.cli.workers.early")
    assert not {"typer", "pydantic", "structlog", "yaml"} & {*names[:first]}
    assert {"typer", "pydantic"} <= {*names[first:]}


@pytest.mark.parametrize(("command", "code"), [("sluicegate", 0), ("another", -signal.SIGTERM)])
def test_only_the_command_listens_and_without_it_the_signal_kills(command: str, code: int) -> None:
    """A program that imports our modules keeps its own handlers; it is also what a run without this protection does."""
    program = (
        f"import os, signal, sys; sys.argv = ['/bin/{command}', 'run']; import sluicegate.streams.cli.workers.early;"
        "os.kill(os.getpid(), signal.SIGTERM); signal.pause()"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, env=os.environ).returncode == code
