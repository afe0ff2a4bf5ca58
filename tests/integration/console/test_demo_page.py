"""`sluicegate demo --open` in a real Chromium: three presses of the button, and the numbers stay right."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.console.judging import OVERLAPPING, WIDTHS, violations

COMMAND = (sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "demo", "--open", "--seconds", "20")
BALANCE = "336776 flights in, 336776 accounted for, 0 lost, 0 repeated"
AGENTS = ("delays", "carriers", "alarms")
PATIENCE = 120_000  # milliseconds


@pytest.fixture
def demo() -> Iterator[subprocess.Popen[str]]:
    run = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True)
    yield run
    run.terminate()
    run.communicate()


def address(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None
    lines = iter(demo.stdout.readline, "")
    return next(url.group() for line in lines if (url := re.search(r"http://127.0.0.1:\d+/", line)))


def numbers(page: Any) -> dict[str, str]:
    """The tiles."""
    tiles = page.get_by_label("Numbers of the demo").locator("div").all_inner_texts()
    return dict(text.split("\n", 1) for text in tiles)


def survived(page: Any, agent: str, kills: int) -> None:
    """Waits until the process of the agent runs again."""
    rows = page.get_by_role("region", name="Agents of the demo").get_by_role("row")
    row = rows.filter(has=page.get_by_role("cell", name=agent, exact=True))
    row.get_by_text(f"{kills} of {kills}").wait_for(timeout=PATIENCE)
    row.get_by_text("runs", exact=True).wait_for(timeout=PATIENCE)


@pytest.mark.timeout(300)
def test_three_workers_are_killed_by_a_button_and_no_flight_is_lost_or_counted_twice(
    browser: Any, demo: subprocess.Popen[str], axe: str
) -> None:
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900})
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address(demo))
    page.get_by_label("Numbers of the demo").get_by_text(re.compile("[1-9],[0-9]+")).nth(1).wait_for(timeout=PATIENCE)
    for agent in AGENTS:
        page.get_by_role("button", name=f"kill -9 {agent}").click()
        survived(page, agent, 1)
        assert (numbers(page)["Lost"], numbers(page)["Repeated"]) == ("0", "0")
    page.get_by_role("heading", name="All 336,776 flights are counted").wait_for(timeout=PATIENCE)
    assert numbers(page) == {
        "Sent of 336,776 flights": "336,776",
        "Counted": "336,776",
        "Lost": "0",
        "Repeated": "0",
        "Kills survived": "3",
    }
    page.get_by_text(re.compile("[1-9],[0-9]+ dead letters: flights without a .* by design")).wait_for(timeout=PATIENCE)
    assert page.get_by_text("to look at").count() == 0
    assert violations(page, axe) == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OVERLAPPING) == []
    context.close()  # the demo ends when its page is closed
    assert complaints == []
    output, _ = demo.communicate(timeout=60)
    assert output.splitlines()[-1] == BALANCE
    assert "workers were killed 3 times and started 6 times" in output
    assert demo.returncode == 0
