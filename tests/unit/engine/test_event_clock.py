"""When an owner takes its partition to be at its end."""

from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.streams.engine import event_clock
from sluicegate.streams.engine.event_clock import STILL, EventClocks

PLACE = ("in", 0)


class Partition:
    """An owner, its claims, its input and its groups, all in one: a partition that was read to its end at offset 5."""

    def __init__(self) -> None:
        self.end, self.offset, self.at_end, self.asked = 5, 5, False, 0
        self.owners, self.intake, self.awaits = {PLACE: self}, SimpleNamespace(reads=lambda place: True), self

    def ended(self, topic: str, number: int) -> int:
        return self.end

    def look_again(self, topic: str, number: int) -> None:
        self.end, self.asked = -1, self.asked + 1

    def now(self, monotonic: float) -> float:
        return monotonic

    def stands(self, offset: int, at_end: bool, now: float) -> None:
        self.at_end = at_end


def looked(partition: Any, *moments: float) -> EventClocks:
    clocks = EventClocks(partition, partition)
    for now in moments:
        clocks.look((), now)
    return clocks


def test_a_partition_is_at_its_end_in_each_turn() -> None:
    partition = Partition()
    partition.asked = -1  # the first turn has no turn before it
    clocks = looked(partition, 100.0)
    partition.end = 5
    for now in (100.25, 100.6, 101.0):
        clocks.look((), now)
        assert partition.at_end
    assert partition.asked == 0


def after_standing_still() -> Partition:
    partition = Partition()
    clocks = looked(partition, 100.0)
    partition.end = 5
    clocks.look((), 100.2)
    clocks.look((), 110.0)
    return partition


def test_a_process_that_stood_still_looks_for_the_end_again() -> None:
    partition = after_standing_still()
    assert not partition.at_end
    assert partition.end == -1


def test_twin_without_it_the_old_end_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_clock, "STILL", 1e9)
    assert after_standing_still().at_end


def test_an_end_that_came_after_it_was_looked_for_again_holds_where_each_turn_takes_long() -> None:
    """Otherwise a store that takes half a second for a commit would keep silent partitions from ever being silent."""
    partition, held = Partition(), []
    clocks = looked(partition, 100.0)
    for turn in range(8):
        partition.end = 5  # the poll of the turn gives it
        clocks.look((), 101.0 + turn)
        held.append(partition.at_end)
    assert held.count(True) >= 4


def test_a_partition_with_records_in_hand_is_not_asked() -> None:
    """The records that were fetched would be fetched again."""
    partition = Partition()
    partition.offset = 6
    looked(partition, 100.0, 100.0 + 2 * STILL)
    assert partition.asked == 0


def test_records_answer_as_the_end_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that stands still after it has read them looks for the end once more."""
    partition = after_standing_still()
    clocks = EventClocks(partition, partition)  # type: ignore[arg-type]
    clocks._asked.add(PLACE)
    partition.end, partition.asked = 5, 0
    monkeypatch.setattr(event_clock, "_holds", lambda batch, place: bool(batch))
    clocks.look([None], 120.0)  # type: ignore[list-item]
    clocks.look((), 140.0)
    assert partition.asked == 1
    assert not partition.at_end
