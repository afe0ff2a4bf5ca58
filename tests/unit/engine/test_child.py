"""How a worker that cannot start ends, and what it says."""

import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from sluicegate.streams.errors import ConfigurationError, InstanceFenced, PersistenceError, SystemNotReady
from sluicegate.streams.processes.child import ProcessTask, Runner, run_one


@pytest.mark.parametrize(
    ("error", "code", "event"),
    [
        (ConfigurationError("no such function"), 2, "worker.refused"),
        (SystemNotReady("no broker"), 3, "worker.not_ready"),
        (InstanceFenced("same instance"), 7, "worker.fenced"),
        (PersistenceError("connection refused"), 1, "worker.store_unavailable"),
    ],
)
def test_what_is_away_or_refused_is_one_line_without_a_traceback(error: Exception, code: int, event: str) -> None:
    def make() -> Runner:
        raise error

    with capture_logs() as logs:
        assert run_one(ProcessTask("sums", 1, make), lambda: False, 1.0) == code
    [line] = logs
    assert (line["event"], line["error"], line["agent"], line["worker"]) == (event, str(error), "sums", 1)
    assert "exc_info" not in line


def test_what_nobody_expected_comes_with_its_traceback() -> None:
    def make() -> Runner:
        raise ZeroDivisionError

    with capture_logs() as logs:
        assert run_one(ProcessTask("sums", 1, make), lambda: False, 1.0) == 1
    assert (logs[0]["event"], logs[0]["exc_info"]) == ("worker.crashed", True)


HANGS = """
import sys, threading
from sluicegate.streams.processes import child

threading.Thread(target=threading.Event().wait).start()
print("said")
ENDS(3)
"""


def test_the_end_of_a_process_waits_for_nothing_and_keeps_what_was_said() -> None:
    """A Kafka client that is freed while its broker is away may hold the interpreter up for minutes; the thread stands
    for it."""
    done = subprocess.run([sys.executable, "-c", HANGS.replace("ENDS", "child.end")], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, b"said\n")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", HANGS.replace("ENDS", "sys.exit")], capture_output=True, timeout=3)


@pytest.mark.parametrize(("code", "text"), [(0, b"thread ended\ntidied up\n"), (1, b"")])
def test_a_good_end_tidies_up_and_no_other_does(code: int, text: bytes) -> None:
    program = (
        "import atexit, threading; from sluicegate.streams.processes import child; atexit.register(print, 'tidied up');"
        f"threading.Timer(0.2, print, ['thread ended']).start(); child.end({code})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, text)
