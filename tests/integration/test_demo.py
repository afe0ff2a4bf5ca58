"""The demo as a user starts it."""

import json
import re
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from tests.waiting import wait_until

COMMAND = (sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "demo")
BALANCE = "336776 flights in, 336776 accounted for, 0 lost, 0 repeated"


@pytest.mark.timeout(240)
def test_every_flight_is_accounted_for_though_the_worker_is_killed_five_times() -> None:
    ended = subprocess.run([*COMMAND, "--kill", "5"], capture_output=True, text=True, timeout=220, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert lines[-1] == BALANCE
    assert "8,255 dead letters" in lines[-2]
    assert "workers were killed 5 times and started 8 times" in ended.stdout


@pytest.mark.timeout(240)
def test_the_console_shows_the_demo_while_it_runs() -> None:
    run = subprocess.Popen([*COMMAND, "--open", "--seconds", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout is not None
        lines = iter(run.stdout.readline, "")
        url = next(match.group() for line in lines if (match := re.search(r"http://127.0.0.1:\d+/", line)))

        def answers(question: str) -> Any:
            with urllib.request.urlopen(url + question, timeout=10) as answer:
                return json.load(answer)

        assert answers("console/session")["app"] == "flights"
        wait_until(lambda: answers("console/groups?agent=delays")["groups"], 60.0, "open groups of the demo")
        assert list(lines)[-1].strip() == BALANCE
    finally:
        run.kill()
        run.communicate()
