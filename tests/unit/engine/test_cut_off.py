"""Calls that a stop or a rebalance cuts off are no attempts: whoever deploys often does not lose messages by it."""

from collections.abc import Callable, Iterator

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.calling.pool import Threads
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.handlers.sealed import Sealed
from sluicegate.streams.handlers.slow import Slow
from tests.mutation.twins import without
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import dead, feed, hooked
from tests.unit.engine.test_handlers import an_agent as inline
from tests.unit.engine.test_slow import an_agent, outputs, turned
from tests.waiting import wait_until

PLACE = Partition("app", "a", "in", 0)
Make = Callable[[], Driver]


@pytest.fixture(autouse=True)
def _gate() -> Iterator[None]:
    handlers.gate.clear()
    yield
    handlers.gate.set()


@pytest.fixture
def make(log: Log, store: MemoryStore, clock: ManualClock) -> Make:
    return lambda: Driver(an_agent("waits_for_its_turn", attempts=1), store, log, clock, pool=Threads).give(0)


def running(driver: Driver, calls: int) -> Driver:
    """Turned until its handler was called so many times in all."""
    wait_until(lambda: driver.turns(2) and len(handlers.calls) == calls, 10, "the call")
    return driver


def stop(driver: Driver) -> None:
    """As SIGTERM, and the time to drain is over at once."""
    driver.worker.run(lambda: True, drain=0)


def revoke(driver: Driver) -> None:
    driver.input.take(("in", 0))
    driver.turns(2)


END = pytest.mark.parametrize("end", [stop, revoke])


def after_some(make: Make, log: Log, end: Callable[[Driver], None]) -> None:
    """Three workers are cut off in the call, one after the other; the fourth may end it, whatever comes of it."""
    for number in range(3):
        end(running(make(), number + 1))
    handlers.gate.set()
    last = make()
    wait_until(lambda: last.turns(2).later(0.5) and (outputs(log) or dead(log)), 10, "the end")


@END
def test_a_call_that_was_cut_off_was_no_attempt(end: Callable[[Driver], None], make: Make, log: Log) -> None:
    feed(log, ("k", 7))
    after_some(make, log, end)
    assert handlers.calls == [(7, 1)] * 4
    assert (outputs(log), dead(log)) == ([7], [])


@END
def test_without_giving_the_attempt_back_it_is_a_dead_letter(
    end: Callable[[Driver], None], make: Make, log: Log
) -> None:
    feed(log, ("k", 7))
    with without("give-back"):
        after_some(make, log, end)
    assert handlers.calls == [(7, 1), (7, 2), (7, 3)]
    assert (outputs(log), dead(log)) == ([], [("0", "handler-failed")])


def test_of_a_process_that_dies_the_attempt_counts(make: Make, log: Log) -> None:
    feed(log, ("k", 7))
    running(make(), 1)
    handlers.gate.set()
    running(make(), 2)
    assert handlers.calls == [(7, 1), (7, 2)]


def test_what_belongs_to_another_claim_already_stays_as_it_is(make: Make, log: Log, store: MemoryStore) -> None:
    feed(log, ("k", 7))
    driver = running(make(), 1)
    store.claim(PLACE, "another", "somebody")
    before = store.read(PLACE)
    revoke(driver)
    assert store.read(PLACE) == before


def test_the_offset_and_what_is_in_hand_do_not_move_with_it(make: Make, log: Log, store: MemoryStore) -> None:
    feed(log, ("k", 7))
    driver = running(make(), 1)
    before = store.read(PLACE)
    revoke(driver)
    after = store.read(PLACE)
    assert before is not None
    assert after is not None
    assert (after.claim.offset, len(after.entries), after.unsent) == (
        before.claim.offset,
        len(before.entries) + 1,
        before.unsent,
    )


def after_an_outage(log: Log, store: MemoryStore, clock: ManualClock, moves: bool) -> list[int]:
    """The second message finds a system away; what was called until all is done."""
    handlers.fails[2] = [handlers.away()]
    feed(log, ("k", 1), ("k", 2))
    driver = Driver(inline("forward"), store, log, clock).give(0).turns(4)
    assert handlers.calls == [1, 2]
    if moves:
        driver.input.take(("in", 0))
        driver.turns(2).give(0)
    for _ in range(10):
        driver.turns(2).later(0.5)
    assert len(distinct(log, "out")) == 2
    return handlers.calls


def test_what_is_remembered_of_failures_goes_with_the_partition(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """A handler without a session is not called again for what it did already, unless another worker may have had the
    partition."""
    assert after_an_outage(log, store, clock, moves=True) == [1, 2, 1, 2]


def test_where_the_partition_stays_it_is_remembered(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    assert after_an_outage(log, store, clock, moves=False) == [1, 2, 2]


def unrecorded(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """A call goes well each time, and the store refuses five times to take what it came to."""
    refused: list[Changes] = []

    def refuse(claim: Claim, changes: Changes) -> None:
        if changes.outbox and len(refused) < 5:
            refused.append(changes)
            raise PersistenceError("away")

    feed(log, ("k", 1))
    driver = Driver(an_agent("forward", attempts=3), hooked(store, before=refuse), log, clock).give(0)
    for _ in range(20):
        driver.later(2.0).turns(3)
    assert len(refused) > 2
    return driver


def test_a_call_whose_outcome_the_store_did_not_take_was_no_attempt(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    unrecorded(log, store, clock)
    assert (len(distinct(log, "out")), dead(log)) == (1, [])


def test_without_remembering_what_began_here_it_is_a_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slow, "resumed", lambda self, sealed: None)
    unrecorded(log, store, clock)
    assert (distinct(log, "out"), dead(log)) == ([], [("0", "handler-failed")])


def between_two(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Two workers have the partition in turn, three times; each time the call goes well, and the claim is lost before
    its outcome is committed. Nobody dies."""
    feed(log, ("k", 1))
    workers = [Driver(an_agent("forward", attempts=3), store, log, clock) for _ in range(2)]
    stolen: list[Changes] = []

    def steal(claim: Claim, changes: Changes) -> None:
        if changes.outbox and len(stolen) < 3:
            stolen.append(changes)
            store.claim(PLACE, f"thief {len(stolen)}", "somebody")

    hooked(store, before=steal)
    for number in range(3):
        workers[number % 2].give(0)
        wait_until(
            lambda driver=workers[number % 2], number=number: driver.later(2.0).turns(1) and len(stolen) > number,
            10,
            "the theft",
        )
        workers[number % 2].input.take(("in", 0))
        workers[number % 2].turns(1)
    workers[1].give(0)
    turned(workers[1], 10, 2.0)


def test_calls_that_two_live_processes_lost_to_each_other_were_no_attempts(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """Found by tests/simulation (seed 333): the other's attempt since then does not make ours a death."""
    between_two(log, store, clock)
    assert (outputs(log), dead(log)) == ([{"doubled": 2}], [])


def test_if_only_the_last_attempt_could_be_ours_it_would_be_a_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed = Slow.resumed

    def the_last_alone(self: Slow, sealed: Sealed) -> None:
        last = {number: item.attempts for number, item in sealed.by_number.items()}
        for number, (began, _) in list(sealed.ours.items()):
            if last.get(number) != began:
                del sealed.ours[number]
        resumed(self, sealed)

    monkeypatch.setattr(Slow, "resumed", the_last_alone)
    between_two(log, store, clock)
    assert (outputs(log), dead(log)) == ([], [("0", "handler-failed")])


def test_an_attempt_that_was_given_back_is_ours_no_more(make: Make, log: Log) -> None:
    """Else the same attempt number, begun by a process that died of it, would not count."""
    feed(log, ("k", 7))
    driver = running(make(), 1)
    ours = driver.worker._setting.slow._ours["in", 0]  # type: ignore[union-attr]
    assert ours
    revoke(driver)
    assert not ours
