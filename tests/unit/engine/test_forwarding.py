"""An agent with neither an aggregation nor a handler sends records on, in the real engine."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import Avro, codec
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Let, OnError, Reducer, Selected
from sluicegate.streams.contracts.headers import RETRIED_FOR
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import a_log, dead, shown

REVIEW = Destination("review", "raw", where="amount > 10000 || default(risk, 0) >= 80")
EU = Destination("eu", "raw", where='currency == "EUR"')
REST = Destination("rest", "raw")
OURS = ("id", "shard", "seq", "fire", "agent")
"""The headers that each output has."""


@pytest.fixture
def log() -> Log:
    return a_log("in", "review", "eu", "rest", "dead")


def forwarder(*routes: Destination, **more: Any) -> Agent:
    if len(routes) == 1:
        return Agent("payments", ("in",), None, routes[0], "dead", **more)
    return Agent("payments", ("in",), None, None, "dead", routes=routes or (REVIEW, EU, REST), **more)


def give(log: Log, *values: Any, number: int = 0) -> None:
    for value in values:
        made = value if isinstance(value, bytes) else json.dumps(value).encode()
        log.append("in", number, b"k", made)


def run(agent: Agent, store: MemoryStore, log: Log, clock: ManualClock) -> Driver:
    return Driver(agent, store, log, clock).give(0).turns()


def amounts(log: Log, topic: str) -> list[Any]:
    return [json.loads(message.v or b"")["amount"] for message in distinct(log, topic)]


def said(log: Log) -> list[tuple[str | None, ...]]:
    """Offset, reason and clause of each dead letter."""
    names = ("offset", "reason", "clause")
    return [tuple(header(m, f"sluicegate-dead-{name}") for name in names) for m in distinct(log, "dead")]


def offset(driver: Driver) -> int:
    return driver.worker._owners["in", 0].claim.offset


def test_value_key_and_headers_go_on_as_they_are(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    value = b'{ "amount":  1.10, "amount": 12345678901234567890123, "x": null }'
    log.append("in", 0, b"\xff", value, [("h", b"x"), ("h", None), ("traceparent", b"00-1-2-01"), ("H", b"\xfe")])
    log.append("in", 0, None, b"7")
    driver = run(forwarder(REST), store, log, clock)
    first, second = distinct(log, "rest")
    assert (first.k, first.v, second.k, second.v) == (b"\xff", value, None, b"7")
    assert [message for message in first.h or () if not message[0].startswith("sluicegate-")] == [
        ("h", b"x"),
        ("h", None),
        ("traceparent", b"00-1-2-01"),
        ("H", b"\xfe"),
    ]
    assert (offset(driver), dead(log)) == (2, [])


def test_an_output_has_our_headers_once_and_not_those_of_the_record(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    theirs = ("reason", "count", "first", "last", "timeout-id", "dead-reason", "dead-topic", "rule")
    names = [*(f"sluicegate-{name}" for name in (*OURS, *theirs)), "dead-sluicegate-id"]
    log.append("in", 0, b"k", b"{}", [(name, b"of the record") for name in names])
    run(forwarder(REST), store, log, clock)
    [message] = distinct(log, "rest")
    words = [name for name, _ in message.h or ()]
    assert sorted(words) == sorted([*(f"sluicegate-{name}" for name in OURS), "dead-sluicegate-id"])
    assert [name for name, value in message.h or () if value == b"of the record"] == ["dead-sluicegate-id"]


def test_a_record_that_was_retried_for_one_agent_goes_on_for_all(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"k", b'{"amount": 1}', [(RETRIED_FOR, b"app/payments")])
    log.append("in", 0, b"k", b'{"amount": 2}', [(RETRIED_FOR, b"app/another")])
    run(forwarder(REST), store, log, clock)
    last = Agent("last", ("rest",), None, Destination("eu", "raw"), "dead", receive=("rest",))
    run(last, store, log, clock)
    assert amounts(log, "eu") == [1]


def test_each_record_goes_to_the_first_route_that_takes_it(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"amount": 20_000}, {"amount": 1, "currency": "EUR"}, {"amount": 2, "currency": "USD"})
    give(log, {"amount": 3, "currency": "EUR", "risk": 80})
    driver = run(forwarder(), store, log, clock)
    assert [amounts(log, topic) for topic in ("review", "eu", "rest")] == [[20_000, 3], [1], [2]]
    values = {labels: v for name, labels, v in driver.worker._parts.meter.snapshot() if name == "expressions"}
    assert values == {("to.review", "true"): 2, ("to.review", "false"): 2, ("to.eu", "true"): 1, ("to.eu", "false"): 1}


def test_continue_sends_it_to_the_next_routes_with_an_id_for_each(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"amount": 20_000, "currency": "EUR"})
    run(forwarder(replace(REVIEW, goes_on=True), replace(EU, goes_on=True), REST), store, log, clock)
    messages = [distinct(log, topic)[0] for topic in ("review", "eu", "rest")]
    assert len({header(message, "sluicegate-id") for message in messages}) == 3
    assert len({header(message, "sluicegate-fire") for message in messages}) == 1
    assert len({message.v for message in messages}) == 1


@pytest.mark.parametrize("unrouted", ["dead-letter", "drop"])
def test_what_no_route_takes(unrouted: Any, log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"amount": 1, "currency": "USD"}, {"amount": 2, "currency": "EUR"})
    driver = run(forwarder(REVIEW, EU, unrouted=unrouted), store, log, clock)
    assert said(log) == ([] if unrouted == "drop" else [("0", "unrouted", None)])
    assert (amounts(log, "eu"), offset(driver)) == ([2], 2)


def test_where_of_the_agent_is_asked_first(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"amount": 0}, {"amount": 5, "currency": "EUR"}, {"amount": "6"})
    driver = run(forwarder(where="amount > 0"), store, log, clock)
    assert (amounts(log, "eu"), said(log)) == ([5], [("2", "expression-failed", "where")])
    assert offset(driver) == 3


def test_a_record_without_an_answer_goes_to_no_route(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"amount": 20_000}, {"amount": 1, "currency": "EUR"})
    run(forwarder(replace(REVIEW, goes_on=True), EU), store, log, clock)
    assert said(log) == [("0", "expression-failed", "to.eu")]
    assert [len(distinct(log, topic)) for topic in ("review", "eu")] == [0, 1]
    [letter] = distinct(log, "dead")
    assert (letter.k, letter.v) == (b"k", b'{"amount": 20000}')


def test_skip_leaves_a_record_without_an_answer_out(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"currency": "EUR"}, {"amount": 1, "currency": "EUR"})
    driver = run(forwarder(on_error=OnError(expression="skip")), store, log, clock)
    assert (amounts(log, "eu"), said(log), offset(driver)) == ([1], [], 2)


def test_stop_halts_before_it_and_goes_on_when_the_file_was_changed(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"amount": 1, "currency": "EUR"}, {"currency": "EUR", "amount": None})
    driver = run(forwarder(on_error=OnError(expression="stop")), store, log, clock)
    assert shown(driver)[1]["in", 0] == ("halted", "expression-stopped")
    run(forwarder(EU, on_error=OnError(expression="stop")), store, log, clock)
    assert amounts(log, "eu") == [1, None]


SELECT = (Selected("amount"), Selected("note"), Selected("total", "total"), Selected("at", "message.key"))


def test_select_writes_the_document_of_the_selected_names(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"amount": 2, "note": None}, {"amount": 3, "note": [{"x": 1.5}], "qty": 2}, {"amount": "4"})
    let = (Let("total", "amount * default(qty, 1)"),)
    run(forwarder(Destination("rest", select=SELECT), let=let), store, log, clock)
    first, second = distinct(log, "rest")
    assert json.loads(first.v or b"") == {"amount": 2, "total": 2, "at": "k"}
    assert json.loads(second.v or b"") == {"amount": 3, "note": [{"x": 1.5}], "total": 6, "at": "k"}
    assert said(log) == [("2", "expression-failed", "let.total")]


def test_an_expression_of_select_that_gives_null_is_a_null(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {})
    run(forwarder(Destination("rest", select=(Selected("a", "default(a, null)"),))), store, log, clock)
    assert [message.v for message in distinct(log, "rest")] == [b'{"a":null}']


def test_raw_records_are_routed_by_their_message(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.append("in", 0, b"a", b"\xff\x00")
    log.append("in", 0, b"b", b"")
    route = Destination("review", "raw", where='message.key == "a"')
    run(forwarder(route, REST, format="raw"), store, log, clock)
    assert [[m.v for m in distinct(log, topic)] for topic in ("review", "rest")] == [[b"\xff\x00"], [b""]]


AVRO = Avro('{"type": "record", "name": "P", "fields": [{"name": "amount", "type": "long"}]}')


def test_avro_bytes_go_on_and_select_writes_json(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    values = [codec("avro", AVRO).encode({"amount": amount}) for amount in (1, 20)]
    give(log, *values, b"\x80")
    routes = (
        Destination("review", "raw", where="amount > 10", goes_on=True),
        Destination("rest", select=(Selected("amount"),)),
    )
    run(forwarder(*routes, format="avro", schema=AVRO), store, log, clock)
    assert [m.v for m in distinct(log, "review")] == [values[1]]
    assert [m.v for m in distinct(log, "rest")] == [b'{"amount":1}', b'{"amount":20}']
    assert dead(log) == [("2", "undecodable")]


NOTHING_READ: list[dict[str, Any]] = [
    {},
    {"where": 'message.key != "x"'},
    {"let": (Let("name", 'message.key + "/" + message.topic'), Let("unused", "amount * 2")), "where": 'name != "x"'},
    {"dedupe": Deduplication("header", "id")},
    {"format": "avro", "schema": Avro('{"type": "record", "name": "P", "fields": []}'), "where": "message.offset >= 0"},
]


@pytest.mark.parametrize("more", NOTHING_READ)
def test_a_value_of_which_no_clause_names_a_part_is_not_decoded(
    more: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    values = [None, b"", b"{", b"\xff\x00", b"[" * 200, b'{"a": 1}']
    for number, value in enumerate([*values, b" " * 2001]):
        log.append("in", 0, b"k", value, [("id", b"%d" % number)])
    driver = run(forwarder(REST, max_record_bytes=2000, **more), store, log, clock)
    assert [m.v for m in distinct(log, "rest")] == values
    assert (dead(log), offset(driver)) == ([("6", "too-large")], 7)


READS = [
    forwarder(REST, where="amount != 1"),
    forwarder(REST, where="has(message.value.amount) || true"),
    forwarder(REST, let=(Let("total", "default(amount, 0) * 2"),), where="total != 1"),
    forwarder(replace(REST, where="default(amount, 0) != 1")),
    forwarder(replace(REST, where="size(message.value) >= 0")),
    forwarder(REST, dedupe=Deduplication("field", "amount", on_missing="accept")),
]


@pytest.mark.parametrize("agent", READS)
def test_a_value_that_a_clause_reads_must_be_one_of_the_format(
    agent: Agent, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"k", None)
    give(log, b"{", b'{"amount": 2}' + b" " * 2000, b'{"amount": 2}')
    driver = run(replace(agent, max_record_bytes=2000), store, log, clock)
    assert sorted(dead(log)) == [("0", "null-value"), ("1", "undecodable"), ("2", "too-large")]
    assert ([m.v for m in distinct(log, "rest")], offset(driver)) == ([b'{"amount": 2}'], 4)


@pytest.mark.parametrize("value", [None, b"{", b'{"a": 1}'])
def test_a_record_without_an_id_is_a_dead_letter_whatever_its_value_is(
    value: bytes | None, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"k", value)
    run(forwarder(REST, dedupe=Deduplication("header", "id")), store, log, clock)
    assert (dead(log), distinct(log, "rest")) == ([("0", "no-id")], [])


def test_a_tombstone_is_selected_from_where_nothing_of_the_value_is_named(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"k", None)
    run(forwarder(Destination("rest", select=(Selected("key", "message.key"),))), store, log, clock)
    assert [message.v for message in distinct(log, "rest")] == [b'{"key":"k"}']


LARGE = (
    Destination("eu", "raw", goes_on=True),
    Destination("rest", select=(Selected("all", "message.value.map(i, message.value)"),)),
)


def test_an_output_that_is_too_large_makes_the_record_a_dead_letter_of_which_nothing_was_sent(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, list(range(600)), [1, 2])
    driver = run(forwarder(*LARGE), store, log, clock)
    assert dead(log) == [("0", "too-large")]
    assert ([m.v for m in distinct(log, "eu")], offset(driver)) == ([b"[1, 2]"], 2)


def test_on_error_produce_stop_halts_before_it(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, list(range(600)))
    driver = run(forwarder(*LARGE, on_error=OnError(produce="stop")), store, log, clock)
    assert shown(driver)[1]["in", 0] == ("halted", "produce-stopped")
    assert dead(log) == []


def keys(log: Log, topic: str = "rest") -> list[bytes | None]:
    return [message.k for message in distinct(log, topic)]


def test_a_record_goes_on_under_its_new_key_with_all_else_as_it_came(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    value = b'{ "customer": {"id": "c-1"},  "amount": 1.10 }'
    log.append("in", 0, b"\xff", value, [("h", b"x"), ("h", None)])
    run(forwarder(REST, key="customer.id"), store, log, clock)
    [message] = distinct(log, "rest")
    assert (message.k, message.v) == (b"c-1", value)
    assert [header for header in message.h or () if not header[0].startswith("sluicegate-")] == [
        ("h", b"x"),
        ("h", None),
    ]


def test_a_new_key_is_text_as_other_keys_are(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, *({"id": name} for name in ("x", 42, 42.0, True, [1.0, "a"], {"b": 1, "a": 2})))
    run(forwarder(REST, key="id"), store, log, clock)
    assert keys(log) == [b"x", b"42", b"42", b"true", b'[1,"a"]', b'{"a":2,"b":1}']


def test_each_route_has_the_new_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"amount": 1, "currency": "EUR"}, {"amount": 20_000, "currency": "USD"})
    chosen = Destination("review", select=(Selected("amount"),), goes_on=True)
    run(forwarder(chosen, EU, REST, key="currency"), store, log, clock)
    assert (keys(log, "review"), keys(log, "eu"), keys(log)) == ([b"EUR", b"USD"], [b"EUR"], [b"USD"])
    assert [m.v for m in distinct(log, "review")] == [b'{"amount":1}', b'{"amount":20000}']


def test_a_computed_field_is_a_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"country": "DE", "amount": 7}, {"amount": 7}, {"country": None, "amount": 8})
    let = (Let("place", 'country + "/" + string(amount)'), Let("unused", "amount / 0"))
    run(forwarder(REST, key="place", let=let), store, log, clock)
    assert keys(log) == [b"DE/7"]
    assert said(log) == [("1", "expression-failed", "let.place"), ("2", "expression-failed", "let.place")]


def test_a_record_whose_new_key_is_missing_is_a_dead_letter_and_goes_to_no_route(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"amount": 1}, {"id": None}, b"{", b"[1]")
    log.append("in", 0, b"k", None)
    give(log, {"id": ""}, {"id": "x" * 10})
    driver = run(forwarder(REST, key="id", max_record_bytes=20), store, log, clock)
    assert dead(log) == [
        ("0", "missing-field"),
        ("1", "missing-field"),
        ("2", "undecodable"),
        ("3", "wrong-type"),
        ("4", "null-value"),
    ]
    assert (keys(log), offset(driver)) == ([b"", b"x" * 10], 7)


def test_what_becomes_of_a_record_without_a_new_key_is_said_by_on_error(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"amount": 1}, {"id": 1})
    run(forwarder(REST, key="id", on_error=OnError(decode="skip")), store, log, clock)
    assert (keys(log), dead(log)) == ([b"1"], [])


def test_a_message_with_its_new_key_is_within_the_limit_of_the_broker(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"id": "x" * 600_000}, {"id": "y"})
    run(forwarder(REST, key="id"), store, log, clock)
    assert (keys(log), dead(log)) == ([b"y"], [("0", "too-large")])


def test_avro_records_are_re_keyed_byte_for_byte(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    values = [codec("avro", AVRO).encode({"amount": amount}) for amount in (1, 20)]
    give(log, *values, b"\x80")
    run(forwarder(REST, key="amount", format="avro", schema=AVRO), store, log, clock)
    assert [(m.k, m.v) for m in distinct(log, "rest")] == [(b"1", values[0]), (b"20", values[1])]
    assert dead(log) == [("2", "undecodable")]


def test_records_of_one_new_key_keep_the_order_of_their_partition(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.create("re-keyed", 4)
    give(log, *({"id": number % 7, "n": number} for number in range(200)))
    run(forwarder(Destination("re-keyed"), key="id"), store, log, clock)
    for partition in log.topics["re-keyed"]:
        by_key: dict[bytes | None, list[int]] = {}
        for message in partition:
            by_key.setdefault(message.k, []).append(json.loads(message.v or b"")["n"])
        assert all(numbers == sorted(numbers) for numbers in by_key.values())
    places = [{m.k for m in partition} for partition in log.topics["re-keyed"]]
    assert sum(map(len, places)) == len(set().union(*places)) == 7


class Failing:
    @staticmethod
    def decode(value: bytes) -> Any:
        return json.loads(value)

    @staticmethod
    def encode(value: Any) -> bytes:
        raise ValueError("cannot")


def test_a_codec_of_the_user_s_that_fails_makes_a_dead_letter(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"amount": 1})
    to = Destination("rest", "tests.unit.engine.test_forwarding:Failing", select=(Selected("amount"),))
    run(forwarder(to), store, log, clock)
    assert dead(log) == [("0", "unencodable")]
    [letter] = distinct(log, "dead")
    assert (letter.v, "cannot be written as" in str(header(letter, "sluicegate-dead-error"))) == (
        b'{"amount": 1}',
        True,
    )


def test_duplicates_go_on_once_and_what_was_refused_may_come_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    dedupe = Deduplication("field", "id")
    give(log, {"id": 1, "amount": 1, "currency": "EUR"}, {"id": 1, "amount": 2, "currency": "EUR"})
    give(log, {"id": 2, "amount": 3, "currency": "USD"}, {"id": 2, "amount": 4, "currency": "EUR"})
    give(log, {"id": 3, "currency": "EUR"}, {"id": 3, "amount": 5, "currency": "EUR"}, {"amount": 6})
    run(forwarder(REVIEW, EU, dedupe=dedupe), store, log, clock)
    assert amounts(log, "eu") == [1, 4, 5]
    assert sorted(dead(log)) == [("2", "unrouted"), ("4", "expression-failed"), ("6", "no-id")]


def forwarded_and_summed(
    log: Log, store: MemoryStore, clock: ManualClock, place: str, protection: str = ""
) -> tuple[int, int]:
    """The number of records that the next agent counts, and of messages that it read; the forwarder dies on the way."""
    first = forwarder(REVIEW, EU, REST)
    rule = Aggregation(count=1, compute=(Reducer("amount", "sum", "amount"),))
    second = Agent("sums", ("rest",), rule, Destination("sums"), "dead", receive=("rest",))
    log.create("sums", 1)
    give(log, *({"amount": n, "currency": "USD"} for n in range(20)))
    failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{place}=raise"})
    with suppress(failpoints.Failpoint):
        Driver(first, store, log, clock).give(0).turns(10)
    failpoints.arm({})
    Driver(first, store, log, clock).give(0).turns(10)
    with without(protection):
        Driver(second, store, log, clock).give(0).turns(10)
    return len(distinct(log, "sums")), sum(map(len, log.topics["rest"]))


def test_a_death_repeats_messages_which_the_next_agent_drops(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    counted, written = forwarded_and_summed(log, store, clock, "acked-not-recorded")
    assert (counted, written > 20) == (20, True)


def test_twin_without_the_memory_of_the_receiver_repeats_count_twice(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert forwarded_and_summed(log, store, clock, "acked-not-recorded", "receive")[0] > 20


@pytest.mark.parametrize("place", ["before-commit", "after-commit", "commit-sent", "after-claim"])
def test_a_death_anywhere_loses_and_adds_nothing(place: str, log: Log, store: MemoryStore, clock: ManualClock) -> None:
    assert forwarded_and_summed(log, store, clock, place)[0] == 20


def test_transactions_send_each_record_once(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, *({"amount": n, "currency": ("EUR", "USD")[n % 2]} for n in range(20)))
    driver = Driver(forwarder(delivery="transactional"), store, log, clock).give(0)
    for _ in range(8):
        driver.later(1).turns(3)
    assert (amounts(log, "eu"), amounts(log, "rest")) == ([*range(0, 20, 2)], [*range(1, 20, 2)])
    assert [len(log.order[topic]) for topic in ("eu", "rest")] == [10, 10]
