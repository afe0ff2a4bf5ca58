"""Every failpoint under load, with every fault that means something there: nothing lost, repeated or out of order."""

import os
import signal
from collections.abc import Callable, Sequence

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.values import ColdGroup, Partition
from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.scene import Scene
from tests.chaos.verdict import Verdict
from tests.chaos.worker import Worker
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
NEWER = {"group.protocol": "consumer", "session.timeout.ms": None, "heartbeat.interval.ms": None}
"""KIP-848, where the broker says when a silent member is out."""
CLAIMED = "partition.claimed"


def meet(scene: Scene, cell: Cell, without: str = "") -> None:
    """A healthy worker and a faulty one share the input while records come; the fault."""
    healthy = scene.run("healthy", without=without)
    scene.feed.start()
    scene.flowing()
    faulty = scene.run("faulty", cell.fault, without)
    pid = faulty.wait_hit()
    if cell.kind == "stop":
        overtaken(scene, healthy)
        os.kill(pid, signal.SIGCONT)


def under_fault(scene: Scene, cell: Cell, without: str = "") -> Verdict:
    """After the fault everything must go on."""
    meet(scene, cell, without)
    if without:
        return scene.verdict(settle=20.0)
    scene.flowing()
    return scene.verdict()


def overtaken(scene: Scene, healthy: Worker) -> None:
    """Wait until this worker has every partition, and what the stopped one had goes on. Its status may be a second old:
    of before it lost one to the other. Its log is not."""

    def has_all() -> bool:
        events = {
            line["partition"]: line["event"]
            for line in list(healthy.lines)
            if line.get("event") in (CLAIMED, "partition.revoked")
        }
        running = {row["number"] for row in healthy.partitions() if row["state"] == "running"}
        return (
            running == {number for number, event in events.items() if event == CLAIMED} == set(range(scene.partitions))
        )

    wait_until(has_all, 40, "the takeover", pause=0.1)
    scene.flowing()


def rows_of_groups(scene: Scene) -> list[Sequence[ColdGroup]]:
    """Some of each partition."""
    store = open_store(scene.store)
    places = [Partition(scene.name, "sums", f"{scene.name}.in", number) for number in range(scene.partitions)]
    rows = [store.keys(place, None, 5) for place in places]
    store.close()
    return rows


@pytest.mark.parametrize("cell", cells.chosen(), ids=str)
def test_no_effect_is_lost_or_repeated_when_a_worker_fails_at(scene: MakeScene, cell: Cell) -> None:
    verdict = under_fault(scene(cell.store, collect=len(cell.point) % 2 == 0), cell)
    assert verdict.clean, verdict


@pytest.mark.parametrize("cell", cells.paged(), ids=str)
def test_no_effect_is_lost_or_repeated_with_groups_that_are_rows_of_the_store_when_a_worker_fails_at(
    scene: MakeScene, cell: Cell
) -> None:
    """Two groups of a partition stay in memory. The slow keys come again before their groups time out."""
    made = scene(cell.store, collect=len(cell.point) % 2 == 0)
    made.spec["agents"]["sums"]["aggregate"] |= {"hot_groups": 2, "timeout": {"after": "8s"}}
    meet(made, cell)
    made.flowing()
    assert all(rows_of_groups(made))
    verdict = made.verdict()
    assert verdict.clean, verdict


@pytest.mark.parametrize("cell", cells.windowed(), ids=str)
def test_no_effect_is_lost_or_repeated_with_windows_that_are_rows_of_the_store_when_a_worker_fails_at(
    scene: MakeScene, cell: Cell
) -> None:
    """Two groups of a partition stay in memory. The records of a partition come in the order of their times, so each
    group has the records of its key from its first to its last one."""
    made = scene(cell.store, collect=len(cell.point) % 2 == 0)
    rule = made.spec["agents"]["sums"]["aggregate"]
    window = {"tumbling": "2s", "idle": "1s", "at_most": "30s"}
    made.spec["agents"]["sums"]["aggregate"] = {"window": window, "hot_groups": 2, "compute": rule["compute"]}
    meet(made, cell)
    made.flowing()
    wait_until(lambda: all(rows_of_groups(made)), 30, "rows of groups in every partition", pause=0.2)
    verdict = made.verdict()
    assert verdict.clean, verdict


@pytest.mark.parametrize("cell", cells.newer(), ids=str)
def test_no_effect_is_lost_or_repeated_with_the_newer_group_protocol_when_a_worker_fails_at(
    scene: MakeScene, cell: Cell
) -> None:
    verdict = under_fault(scene(cell.store, kafka=NEWER), cell)
    assert verdict.clean, verdict


def test_every_failpoint_is_in_a_cell_or_has_a_reason() -> None:
    pairs = {(cell.point, cell.kind) for cell in cells.ALL}
    assert pairs | set(cells.OMITTED) == {(point, kind) for point in cells.POINTS for kind in cells.KINDS}
    assert not pairs & set(cells.OMITTED)
    assert {*cells.TELLING, *cells.ELSEWHERE, *cells.CONSUMER_PROTOCOL} <= pairs
