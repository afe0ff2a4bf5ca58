"""The demo as a user starts it."""

import subprocess
import sys

import pytest

COMMAND = (sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "demo")
BALANCE = "336776 flights in, 336776 accounted for, 0 lost, 0 repeated"


@pytest.mark.timeout(240)
def test_every_flight_is_accounted_for_though_the_worker_is_killed_five_times() -> None:
    ended = subprocess.run([*COMMAND, "--kill", "5"], capture_output=True, text=True, timeout=220, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[-1] == BALANCE
    assert "8,255 dead letters" in lines[-2]
    assert "the worker was killed 5 times and started 6 times" in ended.stdout
