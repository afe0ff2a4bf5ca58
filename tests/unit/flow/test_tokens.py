"""The tokens and the keys that a process has: with a store in memory and clocks of the test."""

import threading

import pytest
import structlog

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.errors import Fenced, PersistenceError
from sluicegate.streams.flow import ledger, singletons, tokens
from sluicegate.streams.flow.ledger import ATTEMPTS, Ledger, StoreTime, place
from sluicegate.streams.flow.limits import RateLimiting, SharedLimit, Throttling
from sluicegate.streams.flow.singletons import LEASE, Singletons
from sluicegate.streams.flow.tokens import Tokens

NEVER = threading.Event()


class Clocks:
    """The clock of a process, and the store's, which is ahead by `ahead`."""

    def __init__(self) -> None:
        self.now, self.ahead = 1_000.0, 500.0

    def monotonic(self) -> float:
        return self.now

    def store(self) -> float:
        return self.now + self.ahead


class Waits(threading.Event):
    """An event that is never set; time passes while it is waited for."""

    def __init__(self, clocks: Clocks, late: float = 0.0) -> None:
        super().__init__()
        self.clocks, self.late, self.waited = clocks, late, 0.0

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waited += timeout
        self.clocks.now += timeout + self.late
        return False


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def store(clocks: Clocks) -> MemoryStore:
    return MemoryStore(clock=clocks.store)


def a_ledger(store: MemoryStore, clocks: Clocks, name: str = "throttle") -> Ledger:
    numbers = iter(range(10_000))
    return Ledger(store, place("app", "a", name), lambda: f"token-{next(numbers)}", clocks.monotonic)


def some_tokens(store: MemoryStore, clocks: Clocks, limit: SharedLimit) -> Tokens:
    return Tokens(limit, a_ledger(store, clocks), clocks.monotonic)


def test_a_call_waits_for_its_token(store: MemoryStore, clocks: Clocks) -> None:
    mine = some_tokens(store, clocks, Throttling(20, 1.0))
    mine.ask({b"k": 3})
    waits = Waits(clocks)
    assert mine.take(b"k", waits)
    assert mine.take(b"k", waits)
    assert waits.waited > 0.0


def test_a_token_that_has_ended_is_of_no_use(store: MemoryStore, clocks: Clocks) -> None:
    mine = some_tokens(store, clocks, Throttling(10, 1.0))
    mine.ask({b"k": 1})
    assert mine.count(b"k") == 1
    clocks.now += 0.06
    assert mine.count(b"k") == 0
    assert not mine.take(b"k", NEVER)


def test_a_thread_that_wakes_too_late_does_not_begin(store: MemoryStore, clocks: Clocks) -> None:
    mine = some_tokens(store, clocks, Throttling(20, 1.0))
    mine.ask({b"k": 4})
    taken = [mine.take(b"k", Waits(clocks, late=0.06)) for _ in range(4)]
    assert not any(taken[2:])


def test_a_cancelled_call_does_not_begin(store: MemoryStore, clocks: Clocks) -> None:
    mine = some_tokens(store, clocks, Throttling(20, 1.0))
    mine.ask({b"k": 4})
    cancelled = threading.Event()
    cancelled.set()
    assert not all(mine.take(b"k", cancelled) for _ in range(4))


def test_the_ledger_is_not_asked_before_it_may_have_more(
    store: MemoryStore, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = some_tokens(store, clocks, Throttling(10, 1.0))
    mine.ask({b"k": 100})
    claims: list[object] = []
    claim = store.claim
    monkeypatch.setattr(store, "claim", lambda *arguments: claims.append(arguments) or claim(*arguments))
    mine.ask({b"k": 100})
    assert claims == []
    clocks.now += mine.wait(b"k")
    mine.ask({b"k": 100})
    assert len(claims) == 1


def test_a_block_is_twice_what_was_used_of_the_last_one(store: MemoryStore, clocks: Clocks) -> None:
    mine = some_tokens(store, clocks, RateLimiting(1_000, 1.0))
    mine.ask({b"k": 10})
    assert all(mine.take(b"k", NEVER) for _ in range(10))
    mine.ask({b"k": 1})
    assert mine.count(b"k") == 20


def test_a_ledger_has_at_most_so_many_keys_and_forgets_those_that_are_idle(
    store: MemoryStore, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_KEYS", 3)
    mine = some_tokens(store, clocks, RateLimiting(5, 1.0))
    mine.ask({b"%d" % n: 1 for n in range(3)})
    with structlog.testing.capture_logs() as logs:
        mine.ask({b"more": 1})
    assert mine.count(b"more") == 0
    assert [entry["event"] for entry in logs] == ["flow.full"]
    clocks.now += 2.0
    mine.ask({b"more": 1})
    assert mine.count(b"more") == 1


def test_a_process_that_is_always_slower_says_so(
    store: MemoryStore, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def fenced(*arguments: object) -> None:
        calls.append(arguments)
        raise Fenced("another")

    monkeypatch.setattr(store, "commit", fenced)
    with pytest.raises(Fenced):
        some_tokens(store, clocks, Throttling(10, 1.0)).ask({b"k": 1})
    assert len(calls) == ATTEMPTS


def test_the_time_of_the_store_lies_between_the_bounds_of_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "DRIFT", 0.0)
    time = StoreTime()
    time.answered(500.0, 0.0, 1.0)
    assert (time.earliest(10.0), time.latest(10.0)) == (509.0, 510.0)
    time.answered(502.4, 2.0, 3.0)
    assert (time.earliest(10.0), time.latest(10.0)) == (509.4, 510.0)
    time.answered(702.0, 2.0, 3.0)  # the clock was set
    assert (time.earliest(10.0), time.latest(10.0)) == (709.0, 710.0)


def test_the_bounds_hold_although_the_clocks_part() -> None:
    """The store's clock goes faster by 0.4 ms in each second."""
    time = StoreTime()
    for second in range(1_000):
        now = float(second)
        time.answered(500.0 + now * 1.0004, now - 0.001, now + 0.2)
        assert time.earliest(now) <= 500.0 + now * 1.0004 <= time.latest(now)
        later = now + 0.9
        assert time.earliest(later) - 0.001 <= 500.0 + later * 1.0004 <= time.latest(later) + 0.001


def one_of(store: MemoryStore, clocks: Clocks, holder: str) -> Singletons:
    return Singletons(a_ledger(store, clocks, "singleton"), holder, clocks.monotonic)


def test_a_call_does_not_begin_when_its_lease_is_nearly_over(store: MemoryStore, clocks: Clocks) -> None:
    mine, call = one_of(store, clocks, "p"), object()
    assert mine.admit({b"k": call}) == {b"k"}
    clocks.now += LEASE * 0.6
    assert not mine.enter(b"k", call)


def test_a_call_that_never_began_gives_its_key_back(store: MemoryStore, clocks: Clocks) -> None:
    mine, other = one_of(store, clocks, "p"), one_of(store, clocks, "q")
    assert mine.admit({b"k": object()}) == {b"k"}
    assert other.admit({b"k": object()}) == set()
    clocks.now += singletons.ENTERS + 0.1
    mine.turn()
    clocks.now += singletons.UNUSED
    mine.turn()
    assert other.admit({b"k": object()}) == {b"k"}


def test_another_call_does_not_end_the_lease_of_one_that_runs(store: MemoryStore, clocks: Clocks) -> None:
    mine, call = one_of(store, clocks, "p"), object()
    mine.admit({b"k": call})
    assert mine.enter(b"k", call)
    mine.release(b"k", object())
    assert mine.admit({b"k": object()}) == set()


def test_others_have_a_turn_although_a_process_has_more_calls_of_the_key(store: MemoryStore, clocks: Clocks) -> None:
    mine, other, begun = one_of(store, clocks, "p"), one_of(store, clocks, "q"), []
    for _ in range(400):
        for holder, name in ((mine, "p"), (other, "q")):
            call = object()
            if holder.admit({b"k": call}):
                assert holder.enter(b"k", call)
                clocks.now += 0.02
                holder.release(b"k", call)
                begun.append(name)
            holder.turn()
        clocks.now += 0.01
    assert min(begun.count("p"), begun.count("q")) > 50


def test_leases_that_the_store_does_not_renew_end(
    store: MemoryStore, clocks: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, call = one_of(store, clocks, "p"), object()
    mine.admit({b"k": call})

    def away(*arguments: object) -> None:
        raise PersistenceError("away")

    monkeypatch.setattr(store, "commit", away)
    clocks.now += LEASE * 0.6
    mine.turn()
    assert mine.admit({b"k": call}) == set()
