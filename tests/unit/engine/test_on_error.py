"""`on_error`: what becomes of what cannot be decoded and of what can never be sent; nothing is lost by a stop."""

import json
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, OnError, Reducer
from sluicegate.streams.contracts.values import Partition
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.producing import metrics
from tests.unit.engine.scene import a_log, dead, feed, shown, totals

RULE = Aggregation(count=1, compute=(Reducer("total", "sum", "amount"),))
BAD = b"{nonsense"


def sums(decode: Any = "dead-letter", produce: Any = "dead", rule: Aggregation | None = RULE, **more: Any) -> Agent:
    return Agent("sums", ("in",), rule, Destination("out"), "dead", on_error=OnError(decode, produce), **more)


def handled(decode: Any = "dead-letter", produce: Any = "dead", name: str = "forward", **how: Any) -> Agent:
    handler = Handler((f"tests.unit.engine.handlers:{name}",), **how)
    return sums(decode, produce, None, handler=handler)


def given(log: Log, *values: bytes | None) -> None:
    for value in values:
        log.append("in", 0, b"k", value)


def turned(driver: Driver) -> Driver:
    for _ in range(6):
        driver.turns(2).later(0.6)
    return driver


def state(driver: Driver) -> tuple[str, str | None]:
    return shown(driver)[1]["in", 0]


AGENTS = pytest.mark.parametrize("make", [sums, handled])


def numbers(log: Log) -> list[int]:
    return [
        value.get("total", value.get("doubled", 0) // 2)
        for m in distinct(log, "out")
        if (value := json.loads(m.v or b"{}"))
    ]


@AGENTS
def test_what_cannot_be_decoded_is_a_dead_letter_unless_the_file_says_otherwise(
    make: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    given(log, b'{"amount": 1}', BAD, b'{"amount": 2}')
    turned(Driver(make(), store, log, clock).give(0))
    assert (numbers(log), dead(log)) == ([1, 2], [("1", "undecodable")])


@AGENTS
def test_skip_leaves_it_out_and_counts_it(make: Any, log: Log, store: MemoryStore, clock: ManualClock) -> None:
    given(log, b'{"amount": 1}', BAD, b'{"amount": 2}', b'{"amount": 3' + b" " * 3000 + b"}")
    driver = turned(
        Driver(make("skip", max_record_bytes=2000) if make is sums else make("skip"), store, log, clock).give(0)
    )
    assert (numbers(log)[:2], dead(log)) == ([1, 2], [])
    assert metrics(driver)["records_skipped"] == (2 if make is sums else 1)


@AGENTS
def test_stop_halts_that_partition_at_it_and_goes_on_when_the_file_was_changed(
    make: Any, store: MemoryStore, clock: ManualClock
) -> None:
    log = a_log(partitions=2)
    given(log, b'{"amount": 1}', BAD, b'{"amount": 2}')
    feed(log, ("k", 5), number=1)
    driver = turned(Driver(make("stop"), store, log, clock).give(0, 1))
    assert state(driver) == ("halted", "decode-stopped")
    assert "on_error.decode is stop" in str(driver.worker._claims.others()[0].detail)
    assert (set(numbers(log)) >= {5}, dead(log)) == (True, [])
    turned(Driver(make("skip"), store, log, clock).give(0, 1))
    assert sorted(numbers(log)) == [1, 2, 5]


def test_an_aggregation_says_itself_what_null_values_and_missing_fields_are(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    given(log, None, b"{}", b'{"amount": 2}')
    turned(Driver(sums("stop"), store, log, clock).give(0))
    assert (totals(log), dead(log)) == ([("k", "count", 1, 2)], [("0", "null-value"), ("1", "missing-field")])


def test_for_a_handler_they_are_what_cannot_be_decoded(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    given(log, None, b"{}", b'{"amount": 2}')
    turned(Driver(handled("skip", name="typed"), store, log, clock).give(0))
    assert (handlers.calls, dead(log)) == ([handlers.Order(2)], [])


# -- produce -----------------------------------------------------------------------------------------------------------

PLACE = Partition("app", "sums", "in", 0)


def refusing(agent: Agent, log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """A broker that takes no rows with key `bad`, and a row before and after such a one."""
    driver = Driver(agent, store, log, clock).give(0).turns()
    driver.producer.fate = lambda row: "rejected" if row.key == b"bad" else "delivered"
    feed(log, ("a", 1), ("bad", 2), ("b", 3))
    return turned(driver)


def unsent(store: MemoryStore) -> list[bytes | None]:
    return [row.key for row in store.pending(PLACE, 0, 100)]


@AGENTS
def test_a_refused_row_halts_the_partition_and_stays_in_the_outbox(
    make: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = refusing(make(produce="stop"), log, store, clock)
    assert state(driver) == ("halted", "produce-stopped")
    assert b"bad" in unsent(store)
    view = store.read(PLACE)
    assert view is not None
    assert view.dead == 0
    assert "row 2 for topic out" in str(driver.worker._claims.others()[0].detail)


@AGENTS
def test_after_a_restart_it_is_sent_with_what_followed(
    make: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    refusing(make(produce="stop"), log, store, clock)
    turned(Driver(make(produce="stop"), store, log, clock).give(0))
    assert (sorted(numbers(log)), unsent(store)) == ([1, 2, 3], [])


@AGENTS
def test_without_stop_it_is_a_dead_row_and_its_output_is_missing(
    make: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    refusing(make(), log, store, clock)
    turned(Driver(make(), store, log, clock).give(0))
    assert sorted(numbers(log)) == [1, 3]


def test_rows_that_were_taken_before_the_stop_are_not_sent_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    refusing(sums(produce="stop"), log, store, clock)
    turned(Driver(sums(produce="stop"), store, log, clock).give(0))
    assert [m.k for m in log.topics["out"][0]].count(b"a") == 1


def test_other_partitions_go_on(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    driver = Driver(sums(produce="stop"), store, log, clock).give(0, 1).turns()
    driver.producer.fate = lambda row: "rejected" if row.key == b"bad" else "delivered"
    feed(log, ("bad", 1))
    turned(driver)
    feed(log, ("good", 7), number=1)
    turned(driver)
    assert numbers(log) == [7]


def test_a_drain_does_not_wait_for_a_refused_row(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = Driver(sums(produce="stop"), store, log, clock).give(0).turns()
    driver.producer.fate = lambda row: "rejected" if row.key == b"bad" else "delivered"
    feed(log, ("bad", 2), ("b", 3))
    driver.turns(1)
    driver.worker.run(lambda: True, drain=5.0)
    assert b"bad" in unsent(store)


@pytest.mark.parametrize(("produce", "expected"), [("dead", [("0", "too-large")]), ("stop", [])])
def test_a_result_that_fits_into_no_message_stops_before_its_commit(
    produce: str, expected: list[Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    rule = Aggregation(count=2, max_bytes=2_000_000, compute=(Reducer("rows", "collect"),))
    given(log, *[b'{"amount": "' + b"x" * 600_000 + b'"}'] * 2)
    driver = turned(Driver(sums(produce=produce, rule=rule), store, log, clock).give(0))
    assert dead(log) == expected
    assert (state(driver) == ("halted", "produce-stopped")) is (produce == "stop")
    assert store.read(PLACE).claim.offset == (0 if produce == "stop" else 2)  # type: ignore[union-attr]


FRACTION, INTEGER = b'{"amount": 1e400}', b'{"amount": ' + b"9" * 4301 + b"}"
INSIDE = b'{"amount": 1, "more": [{"n": -1e999}]}'
SKIPS = Aggregation(count=5, since_first=30.0, compute=(Reducer("total", "sum", "amount"),), on_missing="skip")


@pytest.mark.parametrize(
    ("agent", "value"),
    [
        *((handled(name="note"), value) for value in (FRACTION, INTEGER, INSIDE)),
        *((handled(name="typed"), value) for value in (FRACTION, INTEGER)),
        *((sums(rule=SKIPS), value) for value in (FRACTION, INTEGER)),
    ],
)
def test_a_number_that_python_cannot_hold_is_undecodable_and_never_skipped(
    log: Log, store: MemoryStore, clock: ManualClock, agent: Agent, value: bytes
) -> None:
    """With `on_missing: skip`, too: nothing is missing."""
    given(log, value)
    driver = Driver(agent, store, log, clock).give(0).turns()
    assert dead(log) == [("0", "undecodable")]
    assert "records_skipped" not in {name for name, _, _ in driver.worker.reports.of(0.0).metrics}
