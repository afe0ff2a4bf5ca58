"""The five questions that people have about a run, answered by the console in a few clicks each."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.integration.console.shop import FILE, Shop
from tests.waiting import wait_until

NS = f"console-answers-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
DEAD = 13
SECOND = """\
  visits:
    from: {ns}-visits
    aggregate:
      count: 100
      timeout: {{after: 15s, since: first}}
    to: {{topic: {ns}-visited}}
  sorted:
    from: {ns}-sales
    where: "true"
    to:
      - {{topic: {ns}-large, where: amount >= 10}}
      - {{topic: {ns}-rest}}
"""


class Reader:
    """A person at the page. Counts clicks."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.clicks = page, 0
        page.goto(url)
        page.get_by_role("region", name="State").wait_for()

    def click(self, role: str, name: str) -> None:
        self.page.get_by_role(role, name=name).first.click()
        self.clicks += 1


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, kafka: str) -> Iterator[Shop]:
    """Open baskets of 1,000 and visits of 15 s, and 13 dead letters of one cause beside another one."""
    made = Shop(tmp_path_factory.mktemp("answers"), kafka, NS, text=FILE + SECOND)
    try:
        made.orders(f"basket-{number:02}" for number in range(20))
        made.feed(*((f"basket-{number:02}", b"not JSON") for number in range(DEAD)), ("basket-00", b'{"v": "text"}'))
        wait_until(lambda: made.taken(20 + DEAD + 1), 60.0, "all records")
        yield made
    finally:
        made.run.close()


@pytest.fixture
def reader(browser: Any, shop: Shop) -> Iterator[Reader]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    yield Reader(context.new_page(), shop.url)
    context.close()


def test_why_did_it_not_fire(reader: Reader) -> None:
    reader.click("link", "Groups")
    reader.page.get_by_label("Search").fill("basket-07")
    reader.page.get_by_text("1 to 1 of 1", exact=True).wait_for()
    reader.click("button", "why basket-07")
    text = reader.page.get_by_role("dialog").inner_text()
    assert "1 of 1000" in text
    assert "fires in" in text
    assert reader.clicks == 2


def test_which_worker_owns_it(reader: Reader, shop: Shop) -> None:
    pid = shop.run.events("worker.started", agent="baskets")[-1]["pid"]
    reader.click("link", "Groups")
    reader.page.get_by_label("Search").fill("basket-07")
    reader.page.get_by_text("1 to 1 of 1", exact=True).wait_for()
    assert f"-{pid}" in reader.page.get_by_role("region", name="Open groups").inner_text()
    assert reader.clicks == 1


def test_what_is_late(reader: Reader, shop: Shop) -> None:
    """The worker of the visits does not answer: the operating system has stopped it."""
    pid = shop.run.events("worker.started", agent="visits")[-1]["pid"]
    shop.feed(("late-visit", b"{}"), topic="visits")
    wait_until(lambda: shop.groups("visits") == 1, 60.0, "the visit")
    os.kill(pid, signal.SIGSTOP)
    try:
        overdue = reader.page.get_by_role("link", name="overdue groups in 1 partition")
        overdue.wait_for(timeout=60_000)
        reader.click("link", "overdue groups in 1 partition")
        row = reader.page.get_by_role("row", name="late-visit")
        row.get_by_text("overdue").wait_for(timeout=60_000)
        assert reader.clicks == 1
    finally:
        os.kill(pid, signal.SIGCONT)


def test_retry_these_13(reader: Reader, shop: Shop) -> None:
    reader.click("link", "Dead letters")
    causes = reader.page.get_by_role("region", name="Causes")
    causes.get_by_role("row", name="JSON is malformed").get_by_role("button", name=f"retry all {DEAD}").click()
    dialog = reader.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("the producer was mended")
    dialog.get_by_role("button", name="Retry").click()
    dialog.wait_for(state="hidden")
    assert reader.clicks + 2 == 3
    audit = json.loads(CliRunner().invoke(main, ["audit", shop.file, "--json"]).stdout)["changes"]
    retried = [
        change for change in audit if change["why"] == "the producer was mended" and change["what"] == "dead retry sent"
    ]
    assert len(retried) == DEAD


def test_what_changes_if_i_deploy_this(reader: Reader, shop: Shop) -> None:
    file = Path(shop.file)
    reader.click("link", "Deployments")
    changes = reader.page.get_by_role("region", name="If the file were deployed now")
    changes.get_by_text("The file says what runs.").wait_for()
    file.write_text(file.read_text().replace("count: 1000", "count: 2"))
    changes.get_by_role("row", name="aggregate.count").wait_for(timeout=60_000)
    row = changes.get_by_role("row", name="aggregate.count").inner_text()
    assert ("1000" in row, "\t2\t" in row) == (True, True)
    outcome = reader.page.get_by_role("region", name="What happens to open groups")
    assert outcome.get_by_role("row", name="convert").is_visible()
    assert reader.clicks == 1


def test_an_agent_with_several_outputs_has_a_rate_for_each(reader: Reader, shop: Shop) -> None:
    """Three of four records go to one topic: its arrow has three times the rate."""

    def rates() -> dict[str, float]:
        shop.feed(*((f"k{n}", b'{"amount": %d}' % (20 if n % 4 == 0 else 1)) for n in range(400)), topic="sales")
        history = shop.ask("history?since=")["agents"].get("sorted", {}).get("outputs", {})
        return {name.rpartition("-")[2]: rate for name, rate in history.items()}

    wait_until(lambda: len(rates()) == 2 and all(rates().values()), 60.0, "the rates")
    seen = rates()
    assert 2 < seen["rest"] / seen["large"] < 4
    graph = reader.page.get_by_role("region", name="Topics and agents")
    wait_until(lambda: bool(rates()) and graph.locator(".edge text").count() >= 5, 60.0, "the arrows")
