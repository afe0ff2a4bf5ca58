"""When an owner takes its partition to be at its end, and when it asks a broker once more."""

from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.streams.engine import event_clock
from sluicegate.streams.engine.event_clock import EventClocks

PLACE = ("in", 0)


class Partition:
    """An owner, its claims, its input and its groups, all in one: a partition that was read to its end at offset 5, and
    whose silence may be used from `due` on."""

    def __init__(self, due: float = inf) -> None:
        self.end, self.due = 5, due
        self.at_end, self.asked, self.questions, self.clock = False, -inf, 0, 0.0
        self.owners, self.groups = {PLACE: self}, SimpleNamespace(awaits=[self])
        self.intake = SimpleNamespace(reads=lambda place: True, offset=5)

    def ended(self, topic: str, number: int) -> int:
        return self.end

    def look_again(self, topic: str, number: int) -> None:
        self.end, self.questions = -1, self.questions + 1

    def now(self, monotonic: float) -> float:
        return monotonic + 1_000

    def stands(self, offset: int, at_end: bool, now: float, asked: float) -> None:
        self.at_end, self.clock, self.asked = at_end, now, asked

    def asks(self) -> bool:
        return self.at_end and self.clock >= self.due > self.asked

    @property
    def silent(self) -> bool:
        """Whether silence may be used."""
        return self.at_end and self.asked >= self.due


def looked(partition: Any, *moments: float) -> EventClocks:
    clocks = EventClocks(partition, partition)
    for now in moments:
        clocks.look((), now)
    return clocks


def test_a_partition_is_at_its_end_in_each_turn() -> None:
    partition = Partition()
    clocks = EventClocks(partition, partition)  # type: ignore[arg-type]
    for now in (100.25, 100.6, 110.0):
        clocks.look((), now)
        assert partition.at_end
    assert partition.questions == 0


def test_silence_that_would_be_used_is_a_question_and_the_answer_lets_it_be_used() -> None:
    partition = Partition(due=1_101.0)
    clocks = looked(partition, 100.0, 100.9)
    assert partition.questions == 0
    clocks.look((), 101.0)
    assert (partition.questions, partition.at_end) == (1, False)
    partition.end = 5  # a broker answers
    clocks.look((), 101.2)
    assert partition.silent
    assert (partition.questions, partition.asked) == (1, 1_101.0)


def test_a_connection_that_swallows_the_question_makes_no_silence_and_is_asked_once() -> None:
    partition = Partition(due=1_101.0)
    clocks = looked(partition, 100.0, 101.0)
    for turn in range(200):
        clocks.look((), 101.0 + turn)
        assert not partition.silent
    assert partition.questions == 1


def test_an_answer_is_as_old_as_its_question() -> None:
    """What came while the process stood still is not known."""
    partition = Partition(due=1_101.0)
    clocks = looked(partition, 101.0)
    partition.end = 5
    clocks.look((), 400.0)
    assert partition.asked == 1_101.0
    partition.due = 1_200.0
    clocks.look((), 400.1)
    assert (partition.questions, partition.silent) == (2, False)


def test_a_partition_with_records_in_hand_is_not_asked() -> None:
    """The records that were fetched would be fetched again."""
    partition = Partition(due=0.0)
    partition.intake.offset = 6
    looked(partition, 100.0, 101.0)
    assert partition.questions == 0


def test_nor_one_whose_records_come_with_this_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Partition(due=0.0)
    monkeypatch.setattr(event_clock, "_holds", lambda batch, place: bool(batch))
    EventClocks(partition, partition).look([None], 100.0)  # type: ignore[arg-type, list-item]
    assert (partition.questions, partition.at_end) == (0, False)


def test_a_question_of_an_owner_that_ended_is_forgotten() -> None:
    partition = Partition(due=1_101.0)
    clocks = looked(partition, 101.0)
    owners, partition.owners = partition.owners, {}
    clocks.look((), 102.0)
    partition.owners, partition.end = owners, 5
    clocks.look((), 103.0)
    assert partition.questions == 2
