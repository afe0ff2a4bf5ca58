"""The first record after a claim lies above its offset: an answer from before the seek, or a hole in the topic."""

from typing import Any
from unittest.mock import ANY

from sluicegate.connectors.memory.state import MemoryStore
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import an_agent, feed, totals


class Nothing(set[Any]):
    """A set that forgets at once."""

    def add(self, item: Any) -> None: ...


class Whatever(dict[Any, Any]):
    """Says of each record that it is the one that came before."""

    def get(self, place: Any, default: Any = None) -> Any:
        return ANY if place in self else default


def two_partitions(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """A new worker that has claimed both and read nothing; four records of the first wait for it, and one of the
    second."""
    log.topics["in"].append([])
    for turns in (6, 1):
        feed(log, *[("a", 1)] * 4)
        feed(log, ("b", 1), number=1)
        driver = Driver(an_agent(count=1), store, log, clock).give(0, 1).turns(turns)
    return driver


def after_stale_records(log: Log, driver: Driver, *answers: list[Any]) -> int:
    """Results, when each seek is followed by one of these answers that were under way before it."""
    consume = driver.input.consume
    for stale in answers:

        def handed(most: int, timeout: float = 0.0, stale: list[Any] = stale) -> list[Any]:
            taken, stale[:] = stale[:most], stale[most:]
            return taken

        driver.input.consume = handed  # type: ignore[method-assign]
        driver.turns(1)
    driver.input.consume = consume  # type: ignore[method-assign]
    driver.turns()
    return len(totals(log))


def test_a_first_record_above_the_offset_is_sought_again_and_what_is_in_hand_is_void(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver, (mine, others) = two_partitions(log, store, clock), log.topics["in"]
    assert after_stale_records(log, driver, [mine[5], others[1], mine[6], mine[7]]) == 10


def test_another_record_above_the_offset_is_sought_again_once_more(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """Found by tests/simulation (seed 942321): an answer that was under way may come after the second seek, too."""
    driver, mine = two_partitions(log, store, clock), log.topics["in"][0]
    assert after_stale_records(log, driver, mine[5:], mine[6:]) == 10


def test_if_any_record_were_taken_after_the_second_seek_records_would_be_lost(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver, mine = two_partitions(log, store, clock), log.topics["in"][0]
    driver.worker._claims.fetches.again = Whatever()
    assert after_stale_records(log, driver, mine[5:], mine[6:]) < 10


def behind_a_hole(log: Log, store: MemoryStore, clock: ManualClock, protected: bool) -> int:
    """Results of a partition whose next offset has no record, while each fetch has its records before and behind
    another one's."""
    driver = two_partitions(log, store, clock)
    del log.topics["in"][0][4]
    if not protected:
        driver.worker._claims.fetches.void = Nothing()
    consume = driver.input.consume

    def cut(most: int, timeout: float = 0.0) -> list[Any]:
        return sorted(consume(most, timeout), key=lambda record: -record.partition())

    driver.input.consume = cut  # type: ignore[method-assign]
    for _ in range(8):
        driver.turns(1).later(0.1)
        feed(log, ("b", 1), number=1)
    return [result[0] for result in totals(log)].count("a")


def test_a_hole_behind_which_the_same_record_comes_twice_is_passed(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert behind_a_hole(log, store, clock, protected=True) == 7


def test_if_only_the_first_run_were_void_a_hole_would_never_be_passed(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert behind_a_hole(log, store, clock, protected=False) == 4
