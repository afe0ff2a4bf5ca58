"""Compacted topics as tables: what a table holds, when it answers, and what an agent makes of its rows."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import LookupFailed, SystemNotReady
from sluicegate.streams.lookups.tables import PAUSE, TopicTable
from sluicegate.streams.testing.log import LogRecord, LogTable
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.lookups.scene import enriching, give, letters, out, summing

ITEM = Lookup("item", "topic", "items", "sku", ("price", "currency"))


def topic(log: Log, *rows: tuple[str, Any], partitions: int = 2) -> None:
    """Appends rows to the table's topic, each to the partition that its last letter names."""
    if "items" not in log.topics:
        log.create("items", partitions)
    for key, value in rows:
        written = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        log.append("items", ord(key[-1:] or "a") % partitions, key.encode(), written)


def prices(log: Log) -> list[Any]:
    return [(document["item"] or {}).get("price") for document in out(log)]


def started(log: Log, store: MemoryStore, clock: ManualClock, lookup: Lookup = ITEM) -> Driver:
    return Driver(enriching(lookup), store, log, clock).give(0)


class Feed:
    """A topic of two partitions, as a test tells it."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.complete = False
        self.error, self.closed, self.offset = "", 0, 0

    def put(self, key: str | None, value: bytes | None) -> None:
        self.records.append(LogRecord("items", 0, self.offset, None if key is None else key.encode(), value, None))
        self.offset += 1

    def take(self) -> Sequence[Record]:
        if self.error:
            raise SystemNotReady(self.error)
        records, self.records = self.records, []
        return records

    def lag(self) -> int:
        return len(self.records)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def feed() -> Feed:
    return Feed()


def table(feed: Feed, clock: ManualClock, **limits: int) -> TopicTable:
    lookup = Lookup("item", "topic", "items", "sku", ("price",), **limits)
    return TopicTable(lookup, lambda name: feed, clock.monotonic, 10_000)


def test_a_message_gets_the_newest_row_of_its_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    topic(log, ("a", {"price": 1, "currency": "EUR", "more": 1}), ("b", {"price": 2}), ("a", {"price": 3}))
    give(log, {"sku": "a"}, {"sku": "b"}, {"sku": "c"}, {})
    started(log, store, clock).turns()
    assert out(log) == [
        {"sku": "a", "item": {"price": 3, "currency": None}},
        {"sku": "b", "item": {"price": 2, "currency": None}},
        {"sku": "c", "item": None},
        {"item": None},
    ]


def test_what_came_before_a_commit_is_in_its_rows(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    topic(log, ("a", {"price": 1}))
    driver = started(log, store, clock).turns()
    for price in (2, 3):
        topic(log, ("a", {"price": price}))
        give(log, {"sku": "a"})
        driver.turns()
    topic(log, ("a", None))
    give(log, {"sku": "a"})
    driver.turns()
    assert prices(log) == [2, 3, None]


def test_numbers_and_text_are_one_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    topic(log, ("42", {"price": 1}))
    give(log, {"sku": 42}, {"sku": "42"}, {"sku": 42.0}, {"sku": True})
    started(log, store, clock).turns()
    assert prices(log) == [1, 1, 1, None]


def test_no_partition_is_claimed_before_the_table_is_read_to_its_end(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(log, ("a", {"price": 1}), ("b", {"price": 2}))
    give(log, {"sku": "a"}, {"sku": "b"})
    partitions_held = {1}
    take, complete = LogTable.take, LogTable.complete
    monkeypatch.setattr(LogTable, "take", lambda self: [r for r in take(self) if r.partition() not in partitions_held])
    monkeypatch.setattr(LogTable, "complete", property(lambda self: not partitions_held and complete.fget(self)))  # type: ignore[attr-defined]
    driver = started(log, store, clock).turns(20)
    assert (out(log), store.partitions("app")) == ([], [])
    report = driver.worker.reports.of(clock.now)
    assert not report.ready
    assert "lookup item: topic items is read, 1 rows so far" in report.reasons
    partitions_held.clear()
    driver.worker._tables._tables["item"]._feed.positions = [0, 0]  # type: ignore[union-attr]
    driver.turns()
    assert prices(log) == [1, 2]
    assert driver.worker.reports.of(clock.now).ready


def test_a_record_waits_for_its_row_and_nothing_passes_it(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    lookup = Lookup("item", "topic", "items", "sku", ("price",), missing="wait", wait=300.0)
    topic(log, ("a", {"price": 1}))
    give(log, {"sku": "a"}, {"sku": "b"}, {"sku": "a"})
    driver = started(log, store, clock, lookup).turns()
    for _ in range(60):
        driver.later(1).turns(2)
    assert prices(log) == [1]
    topic(log, ("b", {"price": 2}))
    driver.later(1).turns()  # a second later, however long it has waited
    assert prices(log) == [1, 2, 1]
    assert letters(log) == []


def test_results_get_their_rows(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    lookup = Lookup("team", "topic", "items", "key", ("site",))
    topic(log, ("k", {"site": "Ulm"}))
    give(log, {"amount": 1}, {"amount": 2})
    Driver(summing(lookup), store, log, clock).give(0).turns()
    assert [document["team"] for document in out(log)] == [{"site": "Ulm"}]


def test_a_record_that_is_no_row_changes_nothing(feed: Feed, clock: ManualClock) -> None:
    rows = table(feed, clock)
    feed.put("a", b'{"price": 1}')
    deep = b'{"x":' + b"[" * 2_000 + b"]" * 2_000 + b"}"
    for key, value in (("a", b"{"), ("a", b"7"), (None, b'{"price": 2}'), ("", b"{}"), ("a", b"[" * 100), ("a", deep)):
        feed.put(key, value)
    feed.complete = True
    rows.follow()
    assert (rows.look_up(["a"]), rows.undecodable, len(rows)) == ({"a": {"price": 1}}, 6, 1)


def test_a_tombstone_deletes_and_bytes_are_those_of_the_rows_that_are_there(feed: Feed, clock: ManualClock) -> None:
    rows = table(feed, clock)
    feed.complete = True
    for value in (b'{"price": 1}', b'{"price": "a longer one"}', None, None):
        feed.put("a", value)
    rows.follow()
    assert (rows.look_up(["a"]), len(rows), rows.bytes) == ({}, 0, 0)


def test_before_it_is_complete_it_answers_nothing(feed: Feed, clock: ManualClock) -> None:
    rows = table(feed, clock)
    feed.put("a", b'{"price": 1}')
    rows.follow()
    with pytest.raises(LookupFailed, match="lookup-failed: lookup item: topic items is read, 1 rows so far"):
        rows.look_up(["a"])


@pytest.mark.parametrize("limits", [{"max_rows": 2}, {"max_table_bytes": 600}])
def test_a_table_that_is_full_answers_nothing_any_more(limits: dict[str, int], feed: Feed, clock: ManualClock) -> None:
    rows = table(feed, clock, **limits)
    feed.complete = True
    for key in "ab":
        feed.put(key, b'{"price": 1}')
    rows.follow()
    assert len(rows.look_up(["a", "b"])) == 2
    feed.put("c", b'{"price": "%s"}' % (b"x" * 100))
    feed.put("a", None)
    feed.put("c", b"{}")
    feed.put("d", b'{"price": "%s"}' % (b"x" * 100))
    for _ in range(3):
        rows.follow()
        clock.now += PAUSE
    assert rows.waits_for.startswith("table-full: lookup item has more than ")
    assert (len(rows), rows.bytes, feed.closed) == (0, 0, 1)
    with pytest.raises(LookupFailed, match="table-full"):
        rows.look_up(["a"])


def test_a_record_that_is_larger_than_a_record_may_be_is_no_row(feed: Feed, clock: ManualClock) -> None:
    """One record of a producer could fill the table, which halts the agent."""
    rows = table(feed, clock, max_table_bytes=600)
    feed.complete = True
    feed.put("a", b'{"price": 1}')
    feed.put("a", b'{"price": "%s"}' % (b"x" * 10_000))
    rows.follow()
    assert (rows.look_up(["a"]), rows.undecodable) == ({"a": {"price": 1}}, 1)


def test_a_topic_that_still_cannot_be_read_is_tried_at_growing_intervals(feed: Feed, clock: ManualClock) -> None:
    rows = table(feed, clock)
    feed.error = "unfetchable"
    for _ in range(600):
        rows.follow()
        clock.now += 1
    assert feed.closed == 14, "after 0, 2, 6, 14, 30 and 62 seconds, and then each minute"


def test_a_topic_that_cannot_be_read_on_is_read_anew(feed: Feed, clock: ManualClock) -> None:
    rows = table(feed, clock)
    feed.complete = True
    feed.put("a", b'{"price": 1}')
    feed.put("b", b'{"price": 1}')
    rows.follow()
    feed.error = "topic items is another one"
    rows.follow()
    with pytest.raises(LookupFailed, match="topic items is another one"):
        rows.look_up(["a"])
    feed.error, feed.complete = "", False
    feed.put("a", b'{"price": 2}')
    rows.follow()
    assert len(rows) == 0, "it waits before it tries again"
    clock.now += PAUSE
    rows.follow()
    with pytest.raises(LookupFailed):
        rows.look_up(["a"])
    feed.complete = True
    rows.follow()
    assert (rows.look_up(["a", "b"]), feed.closed) == ({"a": {"price": 2}}, 1)


def test_a_row_that_is_gone_while_the_topic_is_read_anew_stops_the_partition(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    topic(log, ("a", {"price": 1}))
    driver = started(log, store, clock).turns()
    tables: Any = driver.worker._tables
    tables._tables["item"]._lose("topic items is another one")
    give(log, {"sku": "a"})
    driver.turns()
    assert out(log) == []
    driver.later(PAUSE).turns(10)
    driver.later(PAUSE).turns(10)
    assert prices(log) == [1]


def test_numbers_of_a_table_are_metrics(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    topic(log, ("a", {"price": 1}), ("b", b"{"))
    driver = started(log, store, clock).turns().later(2)
    driver.turns()
    values = {name: value for name, labels, value in driver.worker._parts.meter.snapshot() if name.startswith("table_")}
    assert values.pop("table_bytes") > 100  # type: ignore[operator]
    assert values == {"table_rows": 1, "table_lag_records": 0, "table_records_undecodable": 1}


def test_a_field_that_the_file_does_not_name_may_be_anything(feed: Feed, clock: ManualClock) -> None:
    """Else the row before it would stay."""
    rows = table(feed, clock)
    feed.complete = True
    feed.put("a", b'{"price":1}')
    feed.put("a", b'{"price":2,"x":1e999}')
    feed.put("b", b'{"price":1}')
    feed.put("b", b'{"price":3,"x":%b,"y":%b}' % (b"9" * 4_301, b"[" * 900 + b"]" * 900))
    feed.put("c", b'{"price":1}')
    feed.put("c", b'{"price":1e999}')
    rows.follow()
    assert rows.look_up(["a", "b", "c"]) == {"a": {"price": 2}, "b": {"price": 3}, "c": {"price": 1}}
    assert rows.undecodable == 1
