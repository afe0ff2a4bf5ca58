"""A dispatcher that dies or is overtaken while it sends rows and timeouts: each arrives, receivers have it once, keys
keep their order."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.sendings import Sendings, Verdict
from tests.contracts.outbox.given import emptied
from tests.contracts.own import made_url

MakeSendings = Callable[[str], Sendings]


@pytest.fixture
def sendings(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    ns: str,
    make_topic: Callable[..., str],
    store_url: Callable[[str], str],
) -> Iterator[MakeSendings]:
    made: list[Sendings] = []

    def make(kind: str) -> Sendings:
        """On data of its own: lanes belong to the whole store."""
        url = store_url(kind)
        if kind != "sqlite":
            emptied(url := made_url("sendings", kind, url))
            store_url(url)
        for topic, partitions in (("t", 2), ("in", 1), ("out", 1), ("dead", 1)):
            make_topic(f"{ns}.{topic}", partitions)
        made.append(Sendings(ns, tmp_path, str(request.getfixturevalue("kafka")), url))
        return made[-1]

    yield make
    for app in made:
        print(app.tail())
        app.close()


def under_fault(sent: Sendings, cell: Cell, without: str = "") -> Verdict:
    """The faulty one has the lanes; the healthy one takes them over, or the next process of the faulty one does."""
    faulty = sent.run("faulty", cell.fault, without)
    sent.feed()
    pid = faulty.wait_hit()
    healthy = sent.run("healthy", without=without)
    if cell.kind == "stop":
        # it may hold a lock of the store until it goes on: then nobody else can even begin
        with suppress(TimeoutError):
            healthy.wait("dispatcher.running", timeout=20.0)
            sent.flowing(timeout=12.0)
        os.kill(pid, signal.SIGCONT)
    healthy.wait("dispatcher.running", timeout=80.0)
    sent.flowing()
    return sent.verdict()


@pytest.mark.parametrize("cell", cells.dispatcher(), ids=str)
def test_each_row_and_timeout_has_one_effect_when_a_dispatcher_fails_at(sendings: MakeSendings, cell: Cell) -> None:
    verdict = under_fault(sendings(cell.store), cell)
    assert verdict.clean, verdict


TWINS = [
    ("mark-last", Cell("lane-numbered", "kill", "sqlite", 3), "lost"),
    ("lane-source", Cell("lane-sent", "kill", "redis", 3), "repeated"),
]


@pytest.mark.parametrize(("without", "cell", "finding"), TWINS, ids=str)
def test_the_judge_finds_what_happens_without(sendings: MakeSendings, without: str, cell: Cell, finding: str) -> None:
    verdict = under_fault(sendings(cell.store), cell, without)
    assert getattr(verdict, finding), verdict
