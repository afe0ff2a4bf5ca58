"""The deadlines of a shadow take as much memory as its open groups."""

import tracemalloc

import pytest

from sluicegate.streams.agent import Aggregation, DataDeadline
from sluicegate.streams.aggregation.completion import completion
from sluicegate.streams.aggregation.layout import COLUMNS, DEADLINE, FIRST
from sluicegate.streams.shadow import deadlines as deadlines_module
from sluicegate.streams.shadow.clock import ClockBounds
from sluicegate.streams.shadow.deadlines import Deadlines

MOST = 100  # stale entries, beyond two for each group
RECORDS = 20_000


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines_module, "STALE", MOST)


def moved(records: int) -> Deadlines:
    """One group whose deadline each record moves, to and fro."""
    deadline = DataDeadline(at="due")
    deadlines = Deadlines(completion(Aggregation(deadline=deadline)), deadline)
    for number in range(records):
        state: list[object] = [None] * (COLUMNS + 2)
        state[FIRST], state[DEADLINE] = 0, 90_000.0 + number % 2
        deadlines.note(b"k", state, ClockBounds(float(number), float(number)), 0.0, float(number))
    return deadlines


def test_a_deadline_that_each_record_moves_leaves_a_bounded_number_of_entries() -> None:
    deadlines, over = moved(RECORDS), ClockBounds(99_000.0, 99_000.0)
    assert len(deadlines._heap) <= MOST + 3
    assert next(deadlines.due(over, lambda first: False)) == b"k"
    deadlines.forget(b"k")
    assert list(deadlines.due(over, lambda first: False)) == []


def test_the_memory_does_not_grow_with_the_records() -> None:
    sizes = []
    for records in (RECORDS // 20, RECORDS):
        tracemalloc.start()
        deadlines = moved(records)
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        del deadlines
    assert sizes[1] < 2 * sizes[0]
