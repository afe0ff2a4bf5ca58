"""Who counts the shared buffer, and how often."""

from typing import Any

import pytest

from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.calling.pool import InlinePool
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.shared.shared_size import EVERY, METRIC, SHARE, SharedSize


class Buffer:
    """Each count takes `seconds` of `now`."""

    def __init__(self) -> None:
        self.now, self.seconds, self.counts, self.away = 0.0, 0.0, 0, False

    def count(self, name: str) -> int:
        self.now += self.seconds
        self.counts += 1
        if self.away:
            raise PersistenceError("away")
        return 7


@pytest.fixture
def buffer() -> Buffer:
    return Buffer()


def shown(meter: Meter) -> list[Any]:
    return [value for name, _, value in meter.snapshot() if name == METRIC]


def size_of(buffer: Buffer, meter: Meter) -> SharedSize:
    return SharedSize("b", buffer, BackgroundCalls(InlinePool(1), lambda: None), meter, lambda: buffer.now)


def turns(buffer: Buffer, size: SharedSize, seconds: float, counts: bool = True) -> None:
    end = buffer.now + seconds
    while buffer.now < end:
        size.turn(buffer.now, counts)
        buffer.now += 0.25
    size.turn(buffer.now, counts)


def test_one_worker_counts_at_intervals_and_the_others_show_nothing(buffer: Buffer) -> None:
    ours, theirs = Meter(), Meter()
    turns(buffer, size_of(buffer, theirs), 10 * EVERY, counts=False)
    assert (buffer.counts, shown(theirs)) == (0, [])
    turns(buffer, size_of(buffer, ours), 10 * EVERY)
    assert 9 <= buffer.counts <= 11
    assert shown(ours) == [7]


def test_a_count_that_takes_long_comes_rarely(buffer: Buffer) -> None:
    buffer.seconds = 3.0
    turns(buffer, size_of(buffer, Meter()), 10 * SHARE * buffer.seconds)
    assert 9 <= buffer.counts <= 11


def test_without_the_first_partition_and_without_an_answer_no_old_number_is_shown(buffer: Buffer) -> None:
    meter = Meter()
    size = size_of(buffer, meter)
    turns(buffer, size, 1)
    assert shown(meter) == [7]
    turns(buffer, size, 1, counts=False)
    assert shown(meter) == []
    turns(buffer, size, 2 * EVERY)
    assert shown(meter) == [7]
    buffer.away = True
    turns(buffer, size, 2 * EVERY)
    assert shown(meter) == []
