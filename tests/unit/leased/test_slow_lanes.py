"""Two dispatchers, and a store whose calls take longer than the lease of a lane."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import App, Outbox
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.dispatcher import Dispatcher, DispatcherDependencies
from sluicegate.streams.outbox.lane_lease import LONGEST, LaneLease
from sluicegate.streams.testing.log import Log, LogProducer, ManualClock

LEASE, TURN, ROWS = 2.0, 0.1, 40


class SlowPool:
    """Each call acts so many seconds after it began: a mark after `mark`, any other after `other`. Satisfies Pool."""

    waits = True

    def __init__(self, clock: ManualClock, mark: float, other: float) -> None:
        self._clock, self._mark, self._other = clock, mark, other
        self._jobs: list[tuple[float, Callable[[], None]]] = []

    def submit(self, job: Any) -> None:
        call = getattr(job.args[0], "func", None)
        seconds = self._mark if getattr(call, "__name__", "") == "mark" else self._other
        self._jobs.append((self._clock.monotonic() + seconds, job))

    def turn(self) -> None:
        for due in [job for job in self._jobs if job[0] <= self._clock.monotonic()]:
            self._jobs.remove(due)
            due[1]()

    def free(self) -> int:
        return 1

    def wait(self, coroutine: Any) -> Any:
        raise NotImplementedError


class Scene:
    """Rows of one lane, and what two dispatchers make of them."""

    def __init__(self, order: Any, mark: float, other: float) -> None:
        self.clock, self.log = ManualClock(), Log(partitions=1)
        self.store = MemoryStore(self.clock.time)
        self.store.outbox.set_lanes(1)
        self.pools = [SlowPool(self.clock, mark, other) for _ in range(2)]
        settings = Outbox(order=order, lease=LEASE, poll=TURN, lanes=1, backoff_first=TURN, backoff_most=TURN)
        self.dispatchers = [Dispatcher(App("app", "memory://", (), outbox=settings), self._parts(n)) for n in range(2)]
        rows = [OutboxMessage("t", b"k", b"%d" % number, id=f"m{number}") for number in range(ROWS)]
        self.store.outbox.add(None, rows, require_transaction=False)

    def _parts(self, number: int) -> DispatcherDependencies:
        token, time = iter(f"{number}-{item}" for item in range(99)).__next__, self.clock.time
        producer, pool = LogProducer(self.log), self.pools[number]
        return DispatcherDependencies(
            *(self.store, lambda: None, "s", producer, self.clock, time),
            *(Meter(), lambda: 0.5, token, lambda report: None, pool),
        )

    def turns(self, seconds: float) -> "Scene":
        for _ in range(round(seconds / TURN)):
            self.clock.forward(TURN)
            for pool, dispatcher in zip(self.pools, self.dispatchers, strict=True):
                pool.turn()
                dispatcher.turn()
        return self

    @property
    def most_copies(self) -> int:
        return max(Counter(message.v for message in self.log.order.get("t", ())).values(), default=0)


slow = pytest.mark.parametrize(("mark", "other"), [(2.5, 2.5), (3.0, TURN)], ids=["calls", "marks"])
order = pytest.mark.parametrize("order", ["key", "none"])


@order
@slow
def test_rows_are_recorded_as_sent_although_each_call_takes_longer_than_a_lease(
    order: str, mark: float, other: float
) -> None:
    scene = Scene(order, mark, other).turns(40.0)
    assert (scene.store.outbox.count("pending"), scene.store.outbox.count("dispatched")) == (0, ROWS)
    assert scene.most_copies <= 4, "each of the two sends a row twice at most"


@order
@slow
def test_without_longer_leases_they_never_are(
    order: str, mark: float, other: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaneLease, "lost", lambda self: None)
    assert Scene(order, mark, other).turns(400.0).store.outbox.count("pending") == ROWS


def test_a_lease_grows_to_a_bound_and_shrinks_when_its_batches_take_less() -> None:
    lease = LaneLease("token", LEASE)
    for _ in range(20):
        lease.lost()
    assert lease.seconds == LONGEST
    lease.kept(LONGEST / 2)
    assert lease.seconds == LONGEST
    for _ in range(20):
        lease.kept(0.1)
    assert lease.seconds == LEASE
    lease.kept(LEASE)
    assert lease.seconds == 2 * LEASE


def test_a_longer_lease_than_the_bound_stays_as_the_file_says() -> None:
    lease = LaneLease("token", 2 * LONGEST)
    lease.lost()
    assert lease.seconds == 2 * LONGEST
