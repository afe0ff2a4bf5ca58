"""A lane is lost while its process, its producer and its broker live: no row that was handed over is handed over
again."""

from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import App, Outbox
from sluicegate.streams.calling.pool import InlinePool
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.errors import ConcurrencyError, PersistenceError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.dispatcher import Dispatcher, DispatcherDependencies
from sluicegate.streams.outbox.lane_run import LaneRun
from sluicegate.streams.testing.log import Log, LogProducer, ManualClock

LEASE = 2.0


class Scene:
    """A dispatcher on one lane whose store can fail; time passes by steps of a tenth of a second."""

    def __init__(self, *numbers: int) -> None:
        self.clock, self.log = ManualClock(), Log(partitions=1)
        self.store = MemoryStore(self.clock.time)
        self.store.outbox.set_lanes(1)
        self.producer, self.dispatcher = self.process()
        self.add(*numbers)

    def process(self) -> tuple[LogProducer, Dispatcher]:
        producer, settings = (
            LogProducer(self.log),
            Outbox(lease=LEASE, poll=0.1, lanes=1, backoff_first=0.1, backoff_most=0.1),
        )
        token = iter(f"{id(producer)}-{number}" for number in range(99)).__next__
        time, report = self.clock.time, lambda report: None
        parts = DispatcherDependencies(
            self.store,
            lambda: None,
            "s",
            producer,
            self.clock,
            time,
            Meter(),
            lambda: 0.5,
            token,
            report,
            InlinePool(1),
        )
        return producer, Dispatcher(App("app", "memory://", (), outbox=settings), parts)

    def add(self, *numbers: int) -> None:
        messages = [OutboxMessage("t", b"k", b"%d" % number, id=f"m{number}") for number in numbers]
        self.store.outbox.add(None, messages, require_transaction=False)

    def turns(self, seconds: float = 1.0) -> "Scene":
        for _ in range(round(seconds * 10)):
            self.clock.forward(0.1)
            self.dispatcher.turn()
        return self

    def failing(self, error: Exception, *names: str) -> pytest.MonkeyPatch:
        """These calls of the outbox raise, until it is undone."""

        def fails(*_: Any, **__: Any) -> Any:
            raise error

        patch = pytest.MonkeyPatch()
        for name in names:
            patch.setattr(self.store.outbox, name, fails)
        return patch

    def lost(self) -> int:
        samples = self.dispatcher._parts.meter.snapshot()
        return sum(int(value) for name, _, value in samples if name == "lease_lost" and not isinstance(value, list))

    @property
    def written(self) -> list[int]:
        return [int(message.v or b"") for message in self.log.order.get("t", ())]


def not_renewed() -> Scene:
    """The store does not answer for longer than the lease while the reports of 1 and 2 are out."""
    scene = Scene(1, 2)
    scene.producer.hold = True
    scene.turns()
    patch = scene.failing(PersistenceError("away"), "claim", "mark", "pending_age")
    scene.turns(3 * LEASE)
    patch.undo()
    scene.turns()
    scene.producer.hold = False
    return scene.turns(5.0)


def reported() -> Scene:
    """The same, but the reports come after the lane was given up and before it is claimed again."""
    scene = Scene(1, 2)
    scene.producer.hold = True
    scene.turns()
    patch = scene.failing(PersistenceError("away"), "claim", "mark", "pending_age")
    scene.turns(3 * LEASE)
    scene.producer.hold = False
    scene.turns()
    patch.undo()
    return scene.turns(5.0)


def not_marked() -> Scene:
    """The store says at the mark that the lane is another's; nobody sends anything, and the lease is given back."""
    scene = Scene(1, 2)
    patch = scene.failing(ConcurrencyError("another's"), "mark")
    scene.turns(0.5)
    patch.undo()
    return scene.turns(5.0)


def lost_twice() -> Scene:
    """Newer rows follow those that were under way, and the lane is lost once more before any report."""
    scene = Scene(1, 2)
    scene.producer.hold = True
    scene.turns()
    for number in (3, 4):
        patch = scene.failing(PersistenceError("away"), "claim", "mark", "pending_age")
        scene.turns(3 * LEASE)
        patch.undo()
        scene.add(number)
        scene.turns()
    scene.producer.hold = False
    return scene.turns(5.0)


CASES = [not_renewed, reported, not_marked, lost_twice]


@pytest.mark.parametrize("case", CASES)
def test_each_row_is_written_once_whatever_loses_its_lane(case: Callable[[], Scene]) -> None:
    scene = case()
    assert scene.lost() > 0, "no lane was lost: this proves nothing"
    assert scene.written == sorted(set(scene.written))
    assert (scene.store.outbox.count("pending"), len(scene.written)) == (0, scene.store.outbox.count("dispatched"))


@pytest.mark.parametrize("case", CASES)
def test_without_what_is_remembered_rows_are_written_again(
    case: Callable[[], Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaneRun, "follow", lambda self, last: None)
    scene = case()
    assert len(scene.written) > len(set(scene.written))


def test_what_failed_while_the_lane_was_lost_is_sent_again_once_and_before_newer_rows() -> None:
    scene = Scene(1, 2)
    scene.producer.hold, scene.producer.fate = True, lambda row: "lost"
    scene.turns()
    patch = scene.failing(PersistenceError("away"), "claim", "mark", "pending_age")
    scene.turns(2 * LEASE)
    scene.producer.hold, scene.producer.fate = False, lambda row: "failed"
    scene.turns(0.2)
    scene.producer.fate = lambda row: "delivered"
    scene.add(3)
    patch.undo()
    scene.turns(8.0)
    assert (scene.lost(), scene.producer.replaced, scene.written) == (1, 1, [1, 2, 3])


def test_a_number_that_the_store_gave_to_another_row_is_another_row() -> None:
    """The store lost its last writes: the row that has the number now was never handed over."""
    scene = Scene(1)
    scene.producer.hold = True
    scene.turns()
    patch = scene.failing(PersistenceError("away"), "claim", "mark", "pending_age")
    scene.turns(3 * LEASE)
    patch.undo()
    scene.store.outbox.drop(["m1"])
    scene.store.outbox._lanes[0].number = 0
    scene.add(2)
    scene.turns()
    scene.producer.hold = False
    scene.turns(5.0)
    assert (scene.written, scene.store.outbox.count("dispatched")) == ([1, 2], 1)


def test_a_batch_is_forgotten_when_its_marks_have_landed() -> None:
    scene = Scene(1, 2).turns(0.5)
    assert scene.dispatcher.lanes is not None
    [lane] = scene.dispatcher.lanes.lanes
    assert (scene.written, lane.run, lane.previous) == ([1, 2], None, None)


def test_marks_that_fail_while_the_process_stops_are_made_again() -> None:
    scene = Scene(1, 2)
    scene.producer.hold = True
    scene.turns()
    mark, failed = scene.store.outbox.mark, list[object]()

    def fails_once(*arguments: Any) -> None:
        if not failed:
            failed.append(arguments)
            raise PersistenceError("a write conflict")
        mark(*arguments)

    scene.store.outbox.mark = fails_once  # type: ignore[method-assign]
    scene.producer.hold = False
    flush = scene.producer.flush

    def later(timeout: float) -> int:
        scene.clock.forward(0.1)
        return flush(timeout)

    scene.producer.flush = later  # type: ignore[method-assign]
    scene.dispatcher._drain(scene.clock.monotonic() + 5.0)
    assert len(failed) == 1
    _, scene.dispatcher = scene.process()
    scene.turns(5.0)
    assert scene.written == [1, 2]
