"""`where` in the real engine: what it leaves out moves only the offset; what it cannot answer is never lost."""

import json
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Handler, OnError
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.producing import BY_HEADER, metrics, write
from tests.unit.engine.scene import COMPUTE, dead, feed, shown, totals

WHERE = "amount > 0"
BY_DEFAULT = OnError()


def sums(where: str = WHERE, on_error: OnError = BY_DEFAULT, count: int = 2, **more: Any) -> Agent:
    rule = Aggregation(count=count, compute=COMPUTE)
    return Agent("sums", ("in",), rule, Destination("out"), "dead", where=where, on_error=on_error, **more)


def handled(concurrency: int = 0, **more: Any) -> Agent:
    handler = Handler(("tests.unit.engine.handlers:forward",), concurrency=concurrency)
    return Agent("sums", ("in",), None, Destination("out"), "dead", where=WHERE, handler=handler, **more)


def offset(driver: Driver) -> int:
    return driver.worker._owners["in", 0].claim.offset


def answers(driver: Driver) -> dict[tuple[str, ...], float]:
    return {labels: value for name, labels, value in driver.worker._parts.meter.snapshot() if name == "expressions"}


def test_a_record_that_is_left_out_moves_the_offset_and_nothing_else(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 0), ("a", -1))
    log.append("in", 0, None, b'{"amount": 0}')
    driver = Driver(sums(), store, log, clock).give(0).turns()
    assert (offset(driver), driver.worker._owners["in", 0].groups.newest.states, dead(log), totals(log)) == (
        3,
        {},
        [],
        [],
    )
    assert metrics(driver)["records_consumed"] == 3
    assert answers(driver) == {("where", "false"): 3}


def test_the_others_are_grouped(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("a", 0), ("a", 1), ("b", 5), ("a", -7), ("a", 3))
    driver = Driver(sums(), store, log, clock).give(0).turns()
    assert (totals(log), offset(driver)) == ([("a", "count", 2, 4)], 5)
    assert answers(driver) == {("where", "true"): 3, ("where", "false"): 2}


def test_a_record_without_an_answer_is_a_dead_letter_that_names_the_clause(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1), ("a", "secret"), ("a", 2))
    log.append("in", 0, b"a", b'{"other": 1}', [("h", b"x")])
    driver = Driver(sums(), store, log, clock).give(0).turns()
    assert totals(log) == [("a", "count", 2, 3)]
    wrong, missing = distinct(log, "dead")
    assert dead(log) == [("1", "expression-failed"), ("3", "expression-failed")]
    headers = {name: header(missing, f"sluicegate-dead-{name}") for name in ("stage", "clause", "error")}
    assert headers == {"stage": "expression", "clause": "where", "error": "amount is missing"}
    assert (missing.k, missing.v, header(missing, "h")) == (b"a", b'{"other": 1}', "x")
    assert "secret" not in str(header(wrong, "sluicegate-dead-error"))
    assert answers(driver) == {("where", "true"): 2, ("where", "failed"): 2}


def test_skip_leaves_it_out_and_counts_it(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("a", 1), ("a", "six"), ("a", 2))
    driver = Driver(sums(on_error=OnError(expression="skip")), store, log, clock).give(0).turns()
    assert (totals(log), dead(log), offset(driver)) == ([("a", "count", 2, 3)], [], 3)
    assert metrics(driver)["records_skipped"] == 1


def test_stop_halts_before_it_and_goes_on_when_the_file_was_changed(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1), ("a", "six"), ("a", 2))
    driver = Driver(sums(on_error=OnError(expression="stop")), store, log, clock).give(0).turns()
    assert shown(driver)[1]["in", 0] == ("halted", "expression-stopped")
    assert "on_error.expression is stop" in str(driver.worker._claims.others()[0].detail)
    assert (totals(log), dead(log)) == ([], [])
    Driver(sums('amount == "six" || amount > 0', OnError(expression="stop")), store, log, clock).give(0).turns()
    assert (totals(log), dead(log)) == ([("a", "count", 2, 3)], [("1", "wrong-type")])


def test_what_cannot_be_decoded_is_no_question_for_it(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    for value in (None, b"{", b'{"amount": 1}' + b" " * 3000, b'{"amount": 1, "other": "\xff"}'):
        log.append("in", 0, b"a", value)
    driver = Driver(sums("false", max_record_bytes=2000), store, log, clock).give(0).turns()
    reasons = ["null-value", "undecodable", "too-large"]
    assert dead(log) == [(str(at), reason) for at, reason in enumerate(reasons)]
    assert offset(driver) == 4


def test_a_value_that_is_no_object_has_no_fields(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    for value in (b"[1]", b"7", b'"amount"'):
        log.append("in", 0, b"a", value)
    Driver(sums("!has(amount)"), store, log, clock).give(0).turns()
    assert dead(log) == [("0", "wrong-type"), ("1", "wrong-type"), ("2", "wrong-type")]


MESSAGE = {
    'message.key == "a"': 1,
    'message.headers.kind == "x"': 1,
    'has(message.headers["kind"])': 3,
    "message.offset == 1": 2,
    'message.topic == "in" && message.partition == 0': 7,
    'message.value["the-amount"] == 2': 2,
    "!has(message.key)": 4,
}


@pytest.mark.parametrize(("where", "total"), MESSAGE.items())
def test_it_sees_key_headers_and_place_of_the_message(
    where: str, total: int, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"a", b'{"amount": 1, "the-amount": 1}', [("kind", b"y"), ("kind", b"x")])
    log.append("in", 0, b"b", b'{"amount": 2, "the-amount": 2}', [("kind", b"y")])
    log.append("in", 0, b"\xff", b'{"amount": 4, "the-amount": 0}')
    Driver(sums(where, OnError(expression="skip"), count=1), store, log, clock).give(0).turns()
    assert sum(json.loads(m.v or b"")["total"] for m in distinct(log, "out")) == total


def test_an_id_of_a_record_that_is_left_out_is_not_remembered(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    write(log, "1", 0)
    write(log, "1", 5)
    write(log, "1", 6)
    Driver(sums(count=1, dedupe=BY_HEADER), store, log, clock).give(0).turns()
    assert (totals(log), dead(log)) == ([("a", "count", 1, 5)], [])


def test_a_handler_remembers_no_id_of_a_record_that_is_left_out(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    for amount in (0, 5, 6):
        write(log, "1", amount)
    Driver(handled(dedupe=BY_HEADER), store, log, clock).give(0).turns()
    assert (handlers.calls, dead(log)) == ([5], [])


def test_a_record_that_is_left_out_needs_no_id(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    write(log, None, 0)
    write(log, None, 5)
    Driver(sums(count=1, dedupe=Deduplication("header", "message-id")), store, log, clock).give(0).turns()
    assert (totals(log), dead(log)) == ([], [("1", "no-id")])


@pytest.mark.parametrize("concurrency", [0, 4])
def test_a_handler_is_called_for_what_it_takes(
    concurrency: int, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 0), ("a", 1), ("a", "six"), ("b", 2), ("b", -2))
    driver = Driver(handled(concurrency), store, log, clock).give(0)
    for _ in range(6):
        driver.turns(2).later(0.5)
    assert (sorted(handlers.calls), dead(log), offset(driver)) == ([1, 2], [("2", "expression-failed")], 5)
    assert driver.worker._owners["in", 0].sealed.by_number == {}


def test_a_handler_that_fails_is_tried_again_among_records_that_are_left_out(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[2] = [ValueError()]
    feed(log, ("a", 0), ("a", 1), ("a", "six"), ("b", 2), ("b", -2), ("b", 3), ("b", 0))
    driver = Driver(handled(), store, log, clock).give(0)
    for _ in range(12):
        driver.turns(2).later(0.5)
    assert (sorted(set(handlers.calls)), dead(log), offset(driver)) == ([1, 2, 3], [("2", "expression-failed")], 7)


def test_records_go_on_under_another_key_only_where_it_takes_them(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.create("keyed", 1)
    agent = Agent(
        "a.repartition", ("in",), Aggregation(key="c"), Destination("keyed", "raw"), "dead", rekeys="a", where=WHERE
    )
    for value in (b'{"amount": 0}', b'{"amount": 1, "c": "x"}', b'{"amount": 1}', b'{"c": "y"}'):
        log.append("in", 0, b"k", value)
    driver = Driver(agent, store, log, clock).give(0).turns()
    assert [(m.k, m.v) for m in distinct(log, "keyed")] == [(b"x", b'{"amount": 1, "c": "x"}')]
    assert (sorted(dead(log)), offset(driver)) == ([("2", "missing-field"), ("3", "expression-failed")], 4)
