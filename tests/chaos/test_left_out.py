"""Commits that hold only records that `where` left out: a worker that is killed at one goes on behind them, or takes
them again, and then loses and repeats nothing."""

import json
from collections.abc import Callable

import pytest

from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.record import Seen
from tests.chaos.scene import Scene
from tests.chaos.verdict import Verdict, judge
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
LEFT_OUT = 60  # records of each partition, before all others
WHERE = "default(n, 0) >= 0"


def is_taken(record: Seen) -> bool:
    """As WHERE, in plain Python."""
    try:
        document = json.loads(record.value or b"0")
    except ValueError:
        return True
    return not isinstance(document, dict) or document.get("n", 0) >= 0


def behind(app: Scene) -> bool:
    """Is every record that was written so far behind the partitions' offsets?"""
    rows = [row for worker in app.workers for row in worker.partitions()]
    return {(row["number"], row["offset"]) for row in rows} == {(n, LEFT_OUT) for n in range(app.partitions)}


def left_out(app: Scene, cell: Cell | None, without: str = "") -> Verdict:
    """Killed at a commit of nothing but them, if a cell asks for it, and again when the offset is behind them; then
    come others."""
    app.spec["agents"]["sums"]["where"] = WHERE
    for number in range(LEFT_OUT * app.partitions):
        app.feed.one(b"k%d" % (number % 10), b'{"v":1,"n":%d}' % (-1 - number), number % app.partitions)
    worker = app.run("worker", cell.fault if cell else "", without)
    if cell:
        worker.wait_hit()
        worker.wait("partition.claimed", 2 * app.partitions)
    wait_until(lambda: behind(app), 40, "offsets behind what is left out", pause=0.1)
    worker.kill_child()
    claims = worker.wait("partition.claimed", (3 if cell else 2) * app.partitions)[-app.partitions :]
    assert {claim["offset"] for claim in claims} == {LEFT_OUT}
    assert app.records("out") == app.records("dead") == []
    app.feed.start()
    app.flowing()
    worker.kill_child()
    app.flowing()
    app.end()
    inputs = [record for record in app.records("in") if is_taken(record)]
    return judge(inputs, app.records("out"), app.records("dead"))


@pytest.mark.parametrize("cell", cells.left_out(), ids=str)
def test_nothing_is_lost_or_repeated_when_a_worker_dies_at_a_commit_of_what_where_left_out(
    scene: MakeScene, cell: Cell
) -> None:
    verdict = left_out(scene(cell.store), cell)
    assert verdict.clean, verdict


def test_twin_an_offset_that_does_not_move_is_found(scene: MakeScene) -> None:
    with pytest.raises(TimeoutError, match="behind what is left out"):
        left_out(scene("sqlite"), None, without="left-out")
