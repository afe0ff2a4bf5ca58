"""Records that are large: few of them are taken at once, whatever came before, and of others as many as ever."""

from collections.abc import Sequence

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.engine import worker
from sluicegate.streams.engine.worker import Worker
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.testing.log import LogInput
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, an_agent


def taken(log: Log, store: MemoryStore, clock: ManualClock) -> list[int]:
    """How many records each poll asked for besides its first one: small records, then large ones."""
    for size in [10] * 20 + [worker.LARGE] * 60:
        log.append("in", 0, b"k", b"x" * size)
    driver, asked = Driver(an_agent(count=1), store, log, clock).give(0), list[int]()
    consume = driver.input.consume

    def watched(most: int, timeout: float = 0.0) -> list[object]:
        asked.append(most)
        return list(consume(min(most, 19), timeout))

    driver.input.poll = lambda timeout: next(iter(consume(1)), None)  # type: ignore[method-assign]
    driver.input.consume = watched  # type: ignore[method-assign, assignment]
    driver.turns(9)
    return asked


def test_large_records_are_taken_few_at_once_from_the_first_on(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    asked = taken(log, store, clock)
    assert asked[0] == worker.CHUNK - 1
    assert set(asked[1:]) == {worker.SMALL_CHUNK - 1}


def test_without_a_look_at_the_first_record_too_many_are_taken(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "_most", lambda self, first: self._chunk)
    assert taken(log, store, clock)[1] == worker.CHUNK - 1


def after_large_ones(store: MemoryStore, clock: ManualClock, alone: bool) -> list[int]:
    """How many records the polls asked for besides a first large one, and a first small one of another partition."""
    log = a_log("in", "out", "dead", partitions=2)
    log.append("in", 0, b"k", b"x" * worker.LARGE)
    driver, asked = Driver(an_agent(count=1), store, log, clock).give(0, 1), list[int]()
    consume = driver.input.consume
    driver.input.alone = lambda topic, number: alone and number == 0  # type: ignore[method-assign]
    driver.input.consume = lambda most, timeout=0.0: asked.append(most) or consume(0)  # type: ignore[method-assign]
    driver.input.poll = lambda timeout: next(iter(consume(1)), None)  # type: ignore[method-assign]
    driver.turns(3)
    log.append("in", 1, b"k", b"{}")
    driver.turns(3)
    return [most + 1 for most in asked]


def test_large_records_of_a_partition_that_is_read_alone_make_no_other_one_slow(
    store: MemoryStore, clock: ManualClock
) -> None:
    assert after_large_ones(store, clock, alone=True) == [worker.SMALL_CHUNK, worker.CHUNK]


def test_where_both_come_together_the_next_ones_are_few(store: MemoryStore, clock: ManualClock) -> None:
    assert after_large_ones(store, clock, alone=False) == [worker.SMALL_CHUNK, worker.SMALL_CHUNK]


def beside_slow_ones(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, seconds: float, turns: int = 12
) -> tuple[list[int], list[int]]:
    """How many large records of partition 0 each turn takes if one takes so many seconds, and the partitions that a
    consumer of its own reads."""
    log, taken, alone = a_log("in", "out", "dead", partitions=2), list[int](), list[int]()
    for _ in range(60):
        log.append("in", 0, b"k", b"x" * worker.LARGE)
    log.append("in", 1, b"k", b'{"amount": 1}')
    take = Worker._take

    def slowly(self: Worker, owner: Owner, records: Sequence[Record], now: float) -> None:
        if owner.place == ("in", 0):
            clock.now += seconds * len(records)
            taken.append(len(records))
        take(self, owner, records, now)

    monkeypatch.setattr(Worker, "_take", slowly)
    driver = Driver(an_agent(count=1), store, log, clock).give(0, 1)

    def resume_alone(topic: str, number: int, offset: int, epoch: int) -> None:
        alone.append(number)
        driver.input.resume([(topic, number)])

    driver.input.resume_alone = resume_alone  # type: ignore[method-assign]
    driver.turns(turns)
    assert len(log.topics["out"][0]) == 1
    return taken, alone


def test_a_partition_whose_large_records_take_long_holds_up_no_other_one(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, alone = beside_slow_ones(store, clock, monkeypatch, 0.3)
    assert alone == [0]  # and not again and again, where no other consumer is free
    assert min(taken[:5]) == 1


def test_a_slow_partition_is_paused_only_while_a_consumer_is_spare(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records take a minute in all, so it would be asked again."""
    monkeypatch.setattr(LogInput, "spare", lambda self: False)
    taken, alone = beside_slow_ones(store, clock, monkeypatch, 1.0, turns=80)
    assert (sum(taken), alone) == (60, [])


def test_large_records_that_take_no_time_are_read_by_the_consumer_of_all(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, alone = beside_slow_ones(store, clock, monkeypatch, 0.001)
    assert (max(taken), alone) == (worker.SMALL_CHUNK, [])


@pytest.mark.parametrize("size", [10, worker.LARGE])
def test_large_records_beside_a_slow_partition_are_not_the_slow_ones(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A batch has records of both: those of partition 0 take all of the time."""
    log, take = a_log("in", "out", "dead", partitions=2), Worker._take
    for _ in range(3):
        log.append("in", 0, b"k", b"x" * size)
    log.append("in", 1, b"k", b"x" * worker.LARGE)

    def slowly(self: Worker, owner: Owner, records: Sequence[Record], now: float) -> None:
        clock.now += 0.3 * len(records) if owner.place == ("in", 0) else 0.0
        take(self, owner, records, now)

    monkeypatch.setattr(Worker, "_take", slowly)
    driver, alone = Driver(an_agent(count=1), store, log, clock).give(0, 1), list[int]()
    driver.input.resume_alone = lambda topic, number, *at: alone.append(number)  # type: ignore[method-assign]
    driver.turns(8)
    assert alone == ([0] if size >= worker.LARGE else [])
