"""`order: none` and a broker so slow that a batch takes longer than its lease."""

from collections.abc import Sequence

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import App, Outbox
from sluicegate.streams.calling.pool import InlinePool
from sluicegate.streams.contracts.messages import LaneBatch, OutboxMessage
from sluicegate.streams.contracts.stores import BatchReports
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox.dispatcher import Dispatcher, DispatcherDependencies
from sluicegate.streams.outbox.lane_run import LaneRun
from sluicegate.streams.testing.log import Log, LogProducer, ManualClock

ROWS, LEASE, TURN = 40, 1.0, 0.05  # seconds


class Slow(LogProducer):
    """Takes one row a turn."""

    taken = 0

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        if self.taken:
            return 0
        self.taken = 1
        return super().produce_all(list(rows)[:1], reports)


def sent_in(turns: int) -> tuple[list[bytes | None], int]:
    """What came out of so many turns, and how many rows are pending then."""
    clock, log = ManualClock(), Log(partitions=1)
    store, producer = MemoryStore(clock.time), Slow(log)
    settings = Outbox(order="none", lease=LEASE, poll=TURN)
    token = iter(map(str, range(99))).__next__
    parts = DispatcherDependencies(
        store,
        lambda: None,
        "s",
        producer,
        clock,
        clock.time,
        Meter(),
        lambda: 0.5,
        token,
        lambda report: None,
        InlinePool(1),
    )
    dispatcher = Dispatcher(App("app", "memory://", (), outbox=settings), parts)
    messages = [OutboxMessage("t", value=b"%d" % number, id=f"m{number}") for number in range(ROWS)]
    store.outbox.add(None, messages, require_transaction=False)
    for _ in range(turns):
        producer.taken = 0
        dispatcher.turn()
        clock.forward(TURN)
    return [message.v for message in log.order.get("t", ())], store.outbox.count()


def test_what_was_sent_within_the_lease_is_marked_and_the_rest_is_claimed_anew() -> None:
    sent, pending = sent_in(4 * ROWS)
    assert sorted(sent) == sorted(b"%d" % number for number in range(ROWS))
    assert pending == 0


def test_unless_it_stops_in_time_the_same_rows_are_sent_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaneRun, "stop", lambda self: None)
    sent, _ = sent_in(4 * ROWS)
    assert len(sent) > 2 * len(set(sent))


def test_rows_that_nothing_was_done_for_are_free_at_once() -> None:
    rows = tuple(OutboxRow(number, "", f"m{number}", "t", 0, None, b"", ()) for number in (1, 2, 3))
    run = LaneRun(rows)
    run.hand({row.number: row for row in rows[:2]})
    run.arrived(rows[:1])
    run.denied(rows[1], "why")
    made = run.outcomes(LaneBatch(-1, "token", None, rows), ())  # type: ignore[arg-type]
    assert [(message.id, message.kind) for message in made or ()] == [
        ("m1", "dispatched"),
        ("m2", "failed"),
        ("m3", "outage"),
    ]
