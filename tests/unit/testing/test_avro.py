"""Avro agents on the real engine: aggregations, handlers, chains, de-duplication, another schema under open groups."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import Avro
from sluicegate.streams.agent import Agent, Aggregation, App, Deduplication, Destination, Handler, Reducer
from sluicegate.streams.aggregation import reader
from sluicegate.streams.testing.driver import TestDriver
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log
from tests.unit.schemas.avros import SHOP, by
from tests.unit.testing.files import crashed, played

AT = "2026-01-01T00:00:00Z"
ORDERS = Avro(json.dumps(SHOP))
INVOICE = {
    "type": "record",
    "name": "Invoice",
    "fields": [{"name": "customer", "type": "string"}, {"name": "amount", "type": ["null", "double"], "default": None}],
}
FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
agents:
  baskets:
    from: orders
    format: avro
    schema: order.avsc
    key: customer
    repartition: by-customer
    aggregate: {count: 2, compute: {total: {sum: amount}, amounts: {collect: amount}, rows: collect}}
    to: {topic: baskets, format: avro}
  alarms:
    from: baskets
    format: avro
    handler: tests.unit.testing.test_avro:forward
    to: {topic: alarms, format: avro, schema: invoice.avsc}
tests:
  it:
"""
STEPS = """\
- send: {topic: orders, value: {customer: ann, amount: 1}}
- send: {topic: orders, value_base64: AAAA}
- expect: {topic: shop.dead, reason: undecodable}
- send: {topic: orders, key: x, value: {customer: ann, amount: 2.5}}
- expect: {topic: baskets, key: ann, value: {count: 2, total: 3.5, amounts: [1.0, 2.5]}}
- expect: {topic: alarms, key: ann, value: {customer: ann, amount: 3.5}}
"""


def forward(value: dict[str, Any], send: Any) -> None:
    send({"customer": value["key"], "amount": value["total"]})


def _folder(tmp_path: Path) -> Path:
    for name, schema in (("order", SHOP), ("invoice", INVOICE)):
        (tmp_path / f"{name}.avsc").write_text(json.dumps(schema), encoding="utf-8")
    return tmp_path


def test_the_file_s_own_tests_write_and_read_by_its_schemas(tmp_path: Path) -> None:
    assert played(_folder(tmp_path), STEPS, FILE) is None
    output = played(tmp_path, STEPS.replace("amount: 3.5}", "amount: 4.5}"), FILE)
    assert output is not None
    assert "amount is 3.5" in str(output)


def test_a_death_at_any_place_changes_nothing(tmp_path: Path) -> None:
    verdict = crashed(_folder(tmp_path), STEPS, FILE)
    assert verdict.failure is None
    assert verdict.deaths > 50


def sums(schema: Avro = ORDERS, to: Destination | None = None, **wanted: Any) -> App:
    asked = {"count": 2, "compute": (Reducer("total", "sum", "amount"),)} | wanted
    agent = Agent("a", ("in",), Aggregation(**asked), to or Destination("out"), "dead", format="avro", schema=schema)
    return App("app", "memory://", (agent,))


def an_order(amount: float | None = 1, **wanted: Any) -> dict[str, Any]:
    return {"customer": "ann", "amount": amount, **wanted}


def test_what_is_no_number_and_what_does_not_decode_is_a_dead_letter_that_says_which_field() -> None:
    driver = TestDriver(sums())
    driver.send("in", an_order(2), key="k")
    whole = by(SHOP).encode(an_order(3))
    nan = whole.replace(b"\x00\x00\x00\x00\x00\x00\x08\x40", b"\x00\x00\x00\x00\x00\x00\xf8\x7f")
    assert nan != whole
    for value in (nan, whole[:6], whole + b"\x00", None):
        driver.send("in", value, key="k")
    letters = [(letter.reason, letter.headers["sluicegate-dead-error"], letter.raw) for letter in driver.dead_letters()]
    assert letters == [
        ("missing-field", "Expected `int | float`, got `null` - at `$.amount`", nan),
        ("undecodable", "field amount ends too early", whole[:6]),
        ("undecodable", "1 bytes follow the record", whole + b"\x00"),
        ("null-value", "the record has no value (a tombstone)", None),
    ]
    driver.send("in", an_order(3), key="k")
    assert [output.value["total"] for output in driver.read("out")] == [5.0]


def test_a_result_that_does_not_fit_its_schema_is_a_dead_letter_that_names_the_field() -> None:
    fields = [{"name": name, "type": "string"} for name in ("key", "reason", "opened_at", "closed_at")]
    fields += [{"name": "count", "type": "long"}, {"name": "total", "type": "long"}]
    own = Avro(json.dumps({"type": "record", "name": "Own", "fields": fields}))
    driver = TestDriver(sums(to=Destination("out", "avro", own)))
    driver.send("in", an_order(1.5), key="k", times=2)
    [letter] = driver.dead_letters()
    assert (letter.reason, letter.raw) == ("unencodable", None)
    error = (
        "the result cannot be written as avro (total: a whole number is wanted, there is a number); its records "
        "are 0 to 1"
    )
    assert letter.headers["sluicegate-dead-error"] == error


class Order(msgspec.Struct):
    customer: str
    amount: float
    at: datetime


seen: list[Any] = []


def see(value: Order) -> None:
    seen.append(value)


def see_any(value: Any) -> None:
    seen.append(value)


class Strict(msgspec.Struct):
    amount: int


def see_strict(value: Strict) -> None:
    seen.append(value)


def handled(function: str, **how: Any) -> TestDriver:
    handler = Handler((f"tests.unit.testing.test_avro:{function}",), **how)
    seen.clear()
    return TestDriver(
        App(
            "app",
            "memory://",
            (Agent("a", ("in",), None, None, "dead", format="avro", schema=ORDERS, handler=handler),),
        )
    )


@pytest.mark.parametrize("concurrency", [0, 2])
def test_a_handler_gets_values_like_those_of_json_or_of_its_type(concurrency: int) -> None:
    driver = handled("see_any", concurrency=concurrency)
    driver.send("in", an_order(2), key="k")
    assert seen == [{"customer": "ann", "amount": 2.0, "items": [], "note": None, "at": "1970-01-01T00:00:00Z"}]
    driver = handled("see", concurrency=concurrency)
    driver.send("in", an_order(2, at=AT), key="k")
    assert seen == [Order("ann", 2.0, datetime.fromisoformat(AT))]


def test_a_record_that_is_not_of_the_handler_s_type_is_a_dead_letter() -> None:
    driver = handled("see_strict")
    driver.send("in", an_order(2.5), key="k")
    assert [(letter.reason, letter.headers["sluicegate-dead-stage"]) for letter in driver.dead_letters()] == [
        ("undecodable", "decode")
    ]
    assert seen == []


def test_duplicates_are_found_by_a_field() -> None:
    [agent] = sums().agents
    driver = TestDriver(App("app", "memory://", (replace(agent, dedupe=Deduplication("field", "note")),)))
    for note in ("1", "1", None, "2"):
        driver.send("in", an_order(1, note=note), key="k")
    assert [output.value["total"] for output in driver.read("out")] == [2.0]
    assert [letter.reason for letter in driver.dead_letters()] == ["no-id"]


WIDER = Avro(json.dumps({**SHOP, "fields": [{"name": "v", "type": "int", "default": 1}, *SHOP["fields"]]}))
COLLECT = (Reducer("rows", "collect"), Reducer("total", "sum", "amount"))


def opened(
    store: MemoryStore, log: Log, clock: ManualClock, schema: Avro, choice: str = "refuse", compute: Any = COLLECT
) -> Driver:
    [agent] = sums(schema, compute=compute).agents
    return Driver(agent, store, log, clock, choice).give(0)


def test_another_schema_under_open_groups_goes_on_with_what_was_kept() -> None:
    log, clock = a_log(), ManualClock()
    store = MemoryStore(clock.time)
    log.append("in", 0, b"k", by(SHOP).encode(an_order(1)))
    opened(store, log, clock, ORDERS).turns()
    log.append("in", 0, b"k", by(json.loads(WIDER.schema)).encode(an_order(2, v=7)))
    opened(store, log, clock, WIDER).turns()
    [message] = log.topics["out"][0]
    rows = json.loads(message.v or b"")["rows"]
    assert [(row.get("v"), row["amount"]) for row in rows] == [(None, 1.0), (7, 2.0)]


def test_without_what_is_kept_being_json_another_schema_would_spoil_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: records kept as they came."""
    monkeypatch.setattr(reader, "_stored_text", lambda *_: None)
    with pytest.raises(UnicodeDecodeError):
        test_another_schema_under_open_groups_goes_on_with_what_was_kept()


def test_groups_that_were_filled_by_another_rule_can_be_flushed() -> None:
    log, clock = a_log(), ManualClock()
    store = MemoryStore(clock.time)
    log.append("in", 0, b"k", by(SHOP).encode(an_order(1)))
    opened(store, log, clock, ORDERS).turns()
    opened(store, log, clock, WIDER, "flush", compute=(Reducer("most", "max", "amount"),)).turns()
    [message] = log.topics["out"][0]
    assert [row["amount"] for row in json.loads(message.v or b"")["rows"]] == [1.0]
