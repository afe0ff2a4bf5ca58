"""A producer that writes each record twice, under kills: with `dedupe` each counts once, without it the judge finds
them twice."""

from collections.abc import Callable, Iterable

import pytest

from tests.chaos.record import Seen
from tests.chaos.scene import Scene
from tests.chaos.verdict import Verdict, good, judge

MakeScene = Callable[..., Scene]
DEDUPE = {"id": "header:message-id", "horizon": "1h"}


def once(records: Iterable[Seen]) -> list[Seen]:
    """Without the good records whose id came before, in the same partition, in a good one."""
    known: set[tuple[int, str]] = set()
    kept = []
    for record in records:
        name = record.partition, record.headers["message-id"]
        if name not in known:
            kept.append(record)
        if good(record):
            known.add(name)
    return kept


def doubled(app: Scene, fault: str, dedupe: bool = True, without: str = "") -> Verdict:
    """One worker, killed between the first and the second writing of many records, goes on in a new process; then the
    next is killed."""
    app.feed.repeats = True
    if dedupe:
        app.spec["agents"]["sums"]["dedupe"] = DEDUPE
    worker = app.run("worker", fault, without)
    app.feed.start()
    worker.wait_hit()
    worker.wait("partition.claimed", 2 * app.partitions)
    app.flowing()
    worker.kill_child()
    app.flowing()
    app.settle(40.0)
    app.stop()
    app.catch_up()
    inputs = app.records("in")
    assert len(inputs) - len(once(inputs)) > 200, "hardly anything was written twice: this proves nothing"
    return judge(once(inputs), app.records("out"), app.records("dead"))


@pytest.mark.parametrize(("store", "fault"), [("sqlite", "before-commit=kill@40"), ("redis", "after-commit=kill@40")])
def test_what_a_producer_writes_twice_counts_once_although_workers_are_killed(
    scene: MakeScene, store: str, fault: str
) -> None:
    verdict = doubled(scene(store), fault)
    assert verdict.clean, verdict


def test_the_judge_finds_duplicates_counted_twice_with_the_protection_out(scene: MakeScene) -> None:
    verdict = doubled(scene("sqlite"), "before-commit=kill@40", without="dedupe")
    assert verdict.duplicate, verdict


def test_the_judge_finds_duplicates_counted_twice_without_dedupe_in_the_file(scene: MakeScene) -> None:
    verdict = doubled(scene("redis"), "after-commit=kill@40", dedupe=False)
    assert verdict.duplicate, verdict
