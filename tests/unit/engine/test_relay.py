"""The relay: in number order, never past a failure, never blocking; what counts as sent is said by a row's own
report."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.stores import BatchReports
from sluicegate.streams.contracts.values import DeadRow, OutboxRow, Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox import relay as relay_module
from sluicegate.streams.outbox import sender as sender_module
from sluicegate.streams.outbox.relay import Relay, Shard
from sluicegate.streams.testing.log import one_by_one
from tests.mutation.twins import without

OTHER = Partition("app", "agent", "in", 1)


def row(number: int, lineage: str = "t") -> OutboxRow:
    return OutboxRow(number, lineage, f"id-{number}", "out", 0, b"k", b"v", [])


class Broker:
    """A producer whose reports the test gives: `report(number, outcome)`; `sent` is everything handed over."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.sent: list[int] = []
        self.open: dict[int, Any] = {}
        self.room = room
        self.replaced = 0

    def produce(self, row: OutboxRow, report: Any) -> bool:
        if len(self.open) >= self.room:
            return False
        self.sent.append(row.number)
        self.open[row.number] = report
        return True

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        return one_by_one(self.produce, rows, reports)

    def send_now(self) -> None:
        raise AssertionError("linger.ms alone decides")

    def report(self, number: int, outcome: str = "delivered", text: str = "") -> None:
        self.open.pop(number)(outcome, text)

    def poll(self) -> int:
        return len(self.open)

    def replace(self) -> None:
        self.open.clear()
        self.replaced += 1


class Outbox:
    """The store's side: what was committed and not recorded as sent."""

    def __init__(self, *numbers: int) -> None:
        self.rows = {n: row(n) for n in numbers}
        self.failing = False
        self.reads = 0

    def read(self, after: int, limit: int) -> Sequence[OutboxRow]:
        self.reads += 1
        if self.failing:
            raise PersistenceError("the store is away")
        return [self.rows[n] for n in sorted(self.rows) if n > after][:limit]

    def record(self, shard: Shard) -> list[int]:
        """As a commit does; the numbers it recorded."""
        delivered, dead = shard.take_reports()
        gone = [*delivered, *(d.number for d in dead)]
        for number in gone:
            del self.rows[number]
        shard.recorded(gone)
        return delivered


def a_relay(broker: Broker) -> Relay:
    return Relay(broker, Meter(), Backoff(0.1, 5.0, lambda: 0.5))


def a_shard(outbox: Outbox, claimed: int = 0) -> Shard:
    return Shard(outbox.read, claimed, "t")


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_rows_left_by_an_earlier_claim_go_out_before_new_ones(broker: Broker) -> None:
    outbox = Outbox(3, 4, 9)
    shard = a_shard(outbox, claimed=9)
    outbox.rows[10] = row(10)
    shard.add([row(10)], 0.0)
    a_relay(broker).turn([shard], 1.0)
    assert broker.sent == [3, 4, 9, 10]


def test_a_report_of_7_before_6_records_7_only(broker: Broker) -> None:
    outbox = Outbox(6, 7)
    shard = a_shard(outbox, claimed=7)
    a_relay(broker).turn([shard], 1.0)
    broker.report(7)
    assert outbox.record(shard) == [7]
    assert list(outbox.rows) == [6]
    assert shard.unsent == 1


def test_what_the_broker_took_is_counted_by_topic_for_an_agent_with_several_outputs(broker: Broker) -> None:
    outbox, meter = Outbox(1, 2, 3, 4), Meter()
    outbox.rows[3] = replace(outbox.rows[3], topic="other")
    relay = Relay(broker, meter, Backoff(0.1, 5.0, lambda: 0.5), by_topic=True)
    shard = a_shard(outbox, claimed=4)
    relay.turn([shard], 1.0)
    for number in (1, 3, 4):
        broker.report(number)
    broker.report(2, "rejected", "MSG_SIZE_TOO_LARGE")
    relay.turn([shard], 1.1)
    relay.turn([shard], 1.2)
    assert {labels: value for name, labels, value in meter.snapshot() if name == "rows_delivered"} == {
        ("out",): 2,
        ("other",): 1,
    }


def test_without_exact_acknowledgements_6_is_forgotten(broker: Broker) -> None:
    shard = a_shard(Outbox(6, 7), claimed=7)
    a_relay(broker).turn([shard], 1.0)
    broker.report(7)
    with without("exact-acks"):
        assert 6 in shard.take_reports()[0]


def after_a_failure(broker: Broker) -> list[int]:
    """6 fails, 7 was delivered, 8 has no report, 9 comes later: what is handed over, in order."""
    shard, relay = a_shard(Outbox(6, 7, 8), claimed=8), a_relay(broker)
    relay.turn([shard], 1.0)
    shard.add([row(9)], 1.0)
    broker.report(6, "failed", "broker away")
    broker.report(7)
    for now in (1.1, 2.0, 7.0, 7.1, 9.0):
        relay.turn([shard], now)
    return broker.sent


def test_after_a_failure_everything_unreported_goes_out_again_before_anything_newer(broker: Broker) -> None:
    assert after_a_failure(broker) == [6, 7, 8, 6, 8, 9]
    assert broker.replaced == 1


def test_without_that_order_a_newer_row_overtakes(broker: Broker) -> None:
    with without("relay-order"):
        sent = after_a_failure(broker)
    assert sent.index(9) < len(sent) - 1 - sent[::-1].index(6)


def test_nothing_is_handed_over_while_reports_of_a_failed_producer_are_out(broker: Broker) -> None:
    shard, relay = a_shard(Outbox(1, 2), claimed=2), a_relay(broker)
    relay.turn([shard], 1.0)
    broker.report(1, "failed")
    shard.add([row(3)], 1.0)
    relay.turn([shard], 2.0)
    assert (broker.sent, broker.replaced) == ([1, 2], 0)
    relay.turn([shard], 1.0 + sender_module.GIVE_UP_AFTER)
    assert broker.replaced == 1


def test_late_reports_of_rows_that_went_back_change_nothing(broker: Broker) -> None:
    shard, relay = a_shard(Outbox(1), claimed=1), a_relay(broker)
    relay.turn([shard], 1.0)
    late = broker.open[1]
    late("failed", "")
    relay.turn([shard], 7.0)
    late("delivered", "")
    assert shard.take_reports() == ([], [])
    relay.turn([shard], 8.0)
    assert broker.sent == [1, 1]


def test_a_rejected_row_is_dead_and_the_shard_goes_on(broker: Broker) -> None:
    shard, relay = a_shard(Outbox(1, 2), claimed=2), a_relay(broker)
    relay.turn([shard], 1.0)
    text = "Broker: Message size too large (MSG_SIZE_TOO_LARGE)"
    with capture_logs() as logs:
        broker.report(1, "rejected", text)
    assert [(line["event"], line["log_level"], line["number"], line["error"]) for line in logs] == [
        ("relay.row_dead", "error", 1, text)
    ]
    assert ("dead_rows", ("MSG_SIZE_TOO_LARGE",), 1) in relay._sender._meter.snapshot()
    broker.report(2)
    assert shard.take_reports() == ([2], [DeadRow(1, text, 1)])
    relay.turn([shard], 9.0)
    assert broker.sent == [1, 2]


def test_no_row_is_unsent_after_the_last_one_was_rejected(broker: Broker) -> None:
    shard, relay = a_shard(Outbox()), a_relay(broker)
    shard.add([row(1), row(2)], 3.0)
    relay.turn([shard], 4.0)
    assert shard.oldest == 3.0
    broker.report(1)
    broker.report(2, "rejected", "MSG_SIZE_TOO_LARGE")
    assert shard.oldest is None
    shard.add([row(3)], 9.0)
    assert shard.oldest == 9.0


def test_a_full_queue_stops_the_cursor_and_nothing_is_skipped() -> None:
    broker = Broker(room=2)
    outbox = Outbox(*range(1, 8))
    shards, relay = [a_shard(outbox, claimed=7)], a_relay(broker)
    for turn in range(10):
        relay.turn(shards, float(turn))
        for number in list(broker.open):
            broker.report(number)
    assert broker.sent == list(range(1, 8))


def test_more_than_memory_holds_stays_in_the_store_and_is_paged_back(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "IN_MEMORY", 5)
    monkeypatch.setattr(relay_module, "PAGE", 3)
    outbox, broker = Outbox(), Broker(room=0)
    shard, relay = a_shard(outbox), a_relay(broker)
    for first in range(1, 30, 4):
        rows = [row(n) for n in range(first, first + 4)]
        outbox.rows |= {r.number: r for r in rows}
        shard.add(rows, 0.0)
        relay.turn([shard], 0.0)
    assert len(shard.waiting) <= 5
    assert shard.full
    broker.room = 4
    for turn in range(60):
        relay.turn([shard], float(turn))
        for number in list(broker.open):
            broker.report(number)
        outbox.record(shard)
    assert broker.sent == list(range(1, 33))
    assert (outbox.rows, shard.full, shard.oldest) == ({}, False, None)


def test_a_row_is_not_handed_over_a_window_above_one_the_store_still_holds(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "SPREAD", 10)
    outbox = Outbox(1, *range(5, 40))
    shard, relay = a_shard(outbox, claimed=39), a_relay(broker)
    for turn in range(20):
        relay.turn([shard], float(turn))
        for number in [n for n in broker.open if n != 1]:
            broker.report(number)
        outbox.record(shard)
    assert broker.sent == [1, 5, 6, 7, 8, 9, 10]
    broker.report(1)
    for turn in range(20, 40):
        outbox.record(shard)
        relay.turn([shard], float(turn))
        for number in list(broker.open):
            broker.report(number)
    assert broker.sent == [1, *range(5, 40)]


def test_reports_that_hold_up_a_full_window_press_for_a_commit(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "SPREAD", 4)
    shard, relay = a_shard(Outbox(*range(1, 9)), claimed=8), a_relay(broker)
    relay.turn([shard], 1.0)
    broker.report(1)
    assert not shard.pressing
    broker.report(2)
    assert shard.pressing


def test_rows_of_a_lost_future_are_not_sent(broker: Broker) -> None:
    """A rewound store may hold rows above the claim's number that a later, forgotten claim wrote."""
    outbox = Outbox(1)
    outbox.rows |= {2: row(2, "lost"), 3: row(3, "t")}
    a_relay(broker).turn([a_shard(outbox, claimed=1)], 1.0)
    assert broker.sent == [1, 3]


def test_a_store_that_cannot_be_read_holds_the_relay_back_with_growing_pauses(broker: Broker) -> None:
    outbox = Outbox(1)
    outbox.failing = True
    shard, relay = a_shard(outbox, claimed=1), a_relay(broker)
    for tenth in range(100):
        relay.turn([shard], tenth / 10)
    assert 3 < outbox.reads < 12
    outbox.failing = False
    relay.turn([shard], 60.0)
    assert broker.sent == [1]


def test_one_shard_whose_row_failed_does_not_lose_the_order_of_another(broker: Broker) -> None:
    one, two = a_shard(Outbox(1, 2), claimed=2), Shard(Outbox().read, 0, "u", partition=OTHER)
    two.add([row(11, "u"), row(12, "u")], 0.0)
    relay = a_relay(broker)
    relay.turn([one, two], 1.0)
    broker.report(1, "failed")
    broker.report(12)
    for now in (7.0, 9.0):
        relay.turn([one, two], now)
    assert broker.sent == [1, 2, 11, 12, 1, 2, 11]


def test_rows_in_memory_are_bounded_by_their_bytes_and_pages_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty thousand results of 900 KB would be 18 GB: with a broker that is away they stay in the store."""
    monkeypatch.setattr(relay_module, "IN_MEMORY_BYTES", 10_000)
    monkeypatch.setattr(relay_module, "PAGE_BYTES", 10_000)
    outbox, broker = Outbox(), Broker(room=0)
    shard, relay = a_shard(outbox), a_relay(broker)
    most = 0
    for first in range(1, 41, 4):
        rows = [replace(row(n), value=b"x" * 1_000) for n in range(first, first + 4)]
        outbox.rows |= {r.number: r for r in rows}
        shard.add(rows, 0.0)
        relay.turn([shard], 0.0)
        most = max(most, relay_module.weight(shard.waiting))
    assert (most, shard.full) == (8_000, True)
    broker.room, sizes = 1, []
    for turn in range(200):
        relay.turn([shard], float(turn))
        sizes.append(relay_module.weight(shard.waiting))
        for number in list(broker.open):
            broker.report(number)
        outbox.record(shard)
    assert broker.sent == list(range(1, 41))
    assert max(sizes) <= relay_module.FIRST_PAGE * 1_000
    assert max(sizes[100:]) <= 10_000
    assert (outbox.rows, shard.full) == ({}, False)
