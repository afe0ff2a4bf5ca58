"""What `check` says of expressions where it knows the types: of Avro, of a handler's Struct, of results, of tests."""

import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from sluicegate.schemas import Avro
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Let
from sluicegate.streams.config.checking.values import check
from sluicegate.streams.errors import ConfigurationError
from tests.unit.config.files import agent, lines, loaded

TIER = {"type": "enum", "name": "Tier", "symbols": ["gold", "silver"]}
ITEM = {"type": "record", "name": "Item", "fields": [{"name": "price", "type": "double"}, {"name": "n", "type": "int"}]}
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "tier", "type": ["null", TIER], "default": None}, {"name": "name", "type": "string"}],
}


def logical(kind: str, name: str, **more: int) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


FIELDS = {
    "country": "string",
    "qty": "int",
    "amount": "double",
    "paid": "boolean",
    "total": logical("bytes", "decimal", precision=9, scale=2),
    "due": logical("long", "timestamp-millis"),
    "local": logical("long", "local-timestamp-micros"),
    "day": logical("int", "date"),
    "clock": logical("int", "time-millis"),
    "id": logical("string", "uuid"),
    "blob": "bytes",
    "hash": {"type": "fixed", "name": "Hash", "size": 4},
    "status": {"type": "enum", "name": "Status", "symbols": ["paid", "open"]},
    "risk": ["null", "int"],
    "either": ["int", "double"],
    "mixed": ["int", "string"],
    "tags": {"type": "array", "items": "string"},
    "items": {"type": "array", "items": ITEM},
    "best": "Item",
    "labels": {"type": "map", "values": "long"},
    "customer": ["null", CUSTOMER],
    "grade": "Tier",
}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Invoice",
        "namespace": "shop",
        "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
    }
)
AVRO = "from: orders\nformat: avro\nschema: invoice.avsc"
TO = "aggregate: {count: 10}\nto: {topic: totals}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "invoice.avsc").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def said(folder: Path, text: str) -> list[str]:
    """The problems, or else the warnings of expressions."""
    file = loaded(folder, text)
    shown = lines(file.problems, folder) or [
        warning.as_warning().partition(f"{folder}/")[2] for warning in file.warnings
    ]
    return [group.removeprefix("f.yaml:") for group in shown]


WRONG = [
    ('countri == "DE"', 1, "no field countri in invoice.avsc; did you mean country?"),
    ("has(zzz)", 5, "no field zzz in invoice.avsc; correct the expression"),
    ("total * 2 > 1", 1, "* takes numbers, total is text (a decimal); write double(total)"),
    (
        "due < message.timestamp",
        1,
        "< takes two values of one type, due is text (a time) and message.timestamp is time; ",
    ),
    ("local > 1", 1, "> takes two values of one type, local is text (a time without a zone) and 1 is integer; "),
    ("day > 1", 1, "> takes two values of one type, day is text (a date) and 1 is integer; "),
    ("clock > 1", 1, "> takes two values of one type, clock is text (a time of day) and 1 is integer; "),
    ("id > 1", 1, "> takes two values of one type, id is text (a UUID) and 1 is integer; "),
    ("blob > 1", 1, "> takes two values of one type, blob is text (base64) and 1 is integer; "),
    ("hash > 1", 1, "> takes two values of one type, hash is text (base64) and 1 is integer; "),
    ('status == "payed"', 11, '"payed" is not a symbol of status; did you mean "paid"?'),
    ('grade == "bronze"', 10, '"bronze" is not a symbol of grade; its symbols are gold, silver'),
    (
        'has(customer.tier) && customer.tier == "god"',
        40,
        '"god" is not a symbol of customer.tier; did you mean "gold"?',
    ),
    ("has(customer.tierr)", 14, "no field tierr in customer; did you mean tier?"),
    ("items.exists(i, i.prize > 3)", 19, "no field prize in i; did you mean price?"),
    ("items[0].n.m == 1", 12, "items[0].n is integer and has no field m"),
    ("best.prize > 1", 6, "no field prize in best; did you mean price?"),
    ("tags > 1", 1, "> takes two values of one type, tags is list of text; correct the expression"),
    ('labels["x"] == "y"', 1, '== compares values of one type, labels["x"] is integer and "y" is text'),
    ("qty", 1, "must be boolean, qty is integer"),
    ("paid > 1", 1, "> takes two values of one type, paid is boolean and 1 is integer"),
    ('either == "x"', 1, '== compares values of one type, either is number and "x" is text'),
    ('message.value["countri"] == "DE"', 14, "no field countri in message.value; did you mean country?"),
]


@pytest.mark.parametrize(("text", "column", "expected"), WRONG, ids=[text for text, *_ in WRONG])
def test_an_avro_schema_tells_what_cannot_work(text: str, column: int, expected: str, folder: Path) -> None:
    [problem] = said(folder, agent(f"{AVRO}\nwhere: >-\n  {text}\n{TO}"))
    assert problem.startswith(f"10:5: agents.a.where: character {column} of the expression: {expected}")


NULL = "may be null; ask has({0}) before, or write default({0}, ...)"
NULLABLE = [
    ("risk > 3", 1, "risk"),
    ('customer.name == "x"', 1, "customer.name"),
    ('has(customer) && customer.tier == "gold"', 18, "customer.tier"),
    ('message.key == "x"', 1, "message.key"),
    ('message.headers["x"] == "y"', 1, 'message.headers["x"]'),
]


@pytest.mark.parametrize(("text", "column", "name"), NULLABLE, ids=[text for text, *_ in NULLABLE])
def test_a_field_that_may_be_null_is_a_warning(text: str, column: int, name: str, folder: Path) -> None:
    [problem] = said(folder, agent(f"{AVRO}\nwhere: >-\n  {text}\n{TO}"))
    assert problem == f"10:5: agents.a.where: warning: character {column} of the expression: {name} {NULL.format(name)}"


FINE = [
    "default(risk, 0) > 3 && has(customer.tier) && customer.tier == 'gold'",
    'double(total) >= 100 && timestamp(due) < message.timestamp - duration("24h")',
    'mixed == "x" || mixed == 1',
    'either > 1 && amount > qty && labels.x > 1 && "x" in tags && items.exists(i, i.price > i.n)',
    'message.value.country == "DE" && message.topic == "orders"',
]


@pytest.mark.parametrize("text", FINE)
def test_what_can_work_is_not_refused(text: str, folder: Path) -> None:
    assert said(folder, agent(f"{AVRO}\nwhere: >-\n  {text}\n{TO}")) == []


def test_a_finding_has_the_column_in_the_file(folder: Path) -> None:
    [problem] = said(folder, agent(f"{AVRO}\nwhere: qty > 1 && total * 2 > 1\n{TO}"))
    assert problem.startswith("10:23: agents.a.where: * takes numbers, ")


LETS = [
    ("let: {country: total}", "10:11: agents.a.let.country: hides the field country of invoice.avsc; give the "),
    (
        "let: {t: total}\nwhere: t * 2 > 1",
        "11:12: agents.a.where: * takes numbers, t is text (a decimal); write double(t)",
    ),
    ("let: {t: totl}", "10:14: agents.a.let.t: no field totl in invoice.avsc; did you mean total?"),
    ("let: {t: due}\nSUM", "11:38: agents.a.aggregate.compute.s: needs a number, but t is text (a time); "),
]


@pytest.mark.parametrize(("text", "expected"), LETS)
def test_computed_fields_have_types(text: str, expected: str, folder: Path) -> None:
    rest = "aggregate: {count: 10, compute: {s: {sum: t}}}\nto: {topic: totals}"
    text = text.replace("\nSUM", f"\n{rest}") if "SUM" in text else f"{text}\n{TO}"
    [problem] = said(folder, agent(f"{AVRO}\n{text}"))
    assert problem.startswith(expected)


def test_a_computed_field_of_numbers_is_summed(folder: Path) -> None:
    rest = "aggregate: {count: 10, compute: {s: {sum: t}}}\nto: {topic: totals}"
    assert said(folder, agent(f"{AVRO}\nlet: {{t: double(total) * qty}}\n{rest}")) == []


def test_both_halves_of_a_repartition_know_the_schema(folder: Path) -> None:
    more = "key: country\nrepartition: by-country\nwhere: qtty > 1"
    [problem] = said(folder, agent(f"{AVRO}\n{more}\n{TO}"))
    assert problem.startswith("12:12: agents.a.where: no field qtty in invoice.avsc; did you mean qty?")


def test_a_schema_that_another_agent_of_the_file_writes_is_known(folder: Path) -> None:
    first = f"{AVRO}\naggregate: {{count: 10, compute: {{spent: {{sum: qty}}}}}}\nto: {{topic: mid, format: avro}}"
    second = f"  b:\n{indent(f'from: mid{chr(10)}format: avro{chr(10)}where: spend > 1{chr(10)}{TO}', '    ')}\n"
    [problem] = said(folder, agent(first) + second)
    assert "agents.b.where: no field spend in the schema sluicegate.a." in problem


COMPUTE = (
    "compute: {n: count, kinds: {distinct: country}, whole: {sum: qty}, most: {max: amount}, mid: {mean: qty}, "
    "last: {last: due}, rows: {collect: qty}}"
)
OF_RESULTS = [
    ('reason == "maunal"', '"maunal" is not a symbol of reason; did you mean "manual"?'),
    ("spend > 1", "no field spend in the result; correct the expression"),
    ('n == "x"', '== compares values of one type, n is integer and "x" is text; '),
    ('kinds == "x"', '== compares values of one type, kinds is integer and "x" is text; '),
    ('whole == "x"', '== compares values of one type, whole is number and "x" is text; '),
    ('most == "x"', '== compares values of one type, most is number and "x" is text; '),
    ('mid == "x"', '== compares values of one type, mid is double and "x" is text; '),
    ("last > 1", "> takes two values of one type, last is text (a time) and 1 is integer; "),
    ('"x" in rows', 'in compares values of one type, "x" is text and rows holds integer; '),
    ("key > 1", "> takes two values of one type, key is text and 1 is integer; "),
    ("opened_at > 1", "> takes two values of one type, opened_at is text (a time) and 1 is integer; "),
]


@pytest.mark.parametrize("place", ["having", "to"])
@pytest.mark.parametrize(("text", "expected"), OF_RESULTS, ids=[text for text, *_ in OF_RESULTS])
def test_reducers_tell_the_types_of_a_result(text: str, expected: str, place: str, folder: Path) -> None:
    having = f"having: >-\n  {text}\n" if place == "having" else ""
    to = "to: {topic: t}" if having else f"to:\n  - topic: t\n    where: >-\n      {text}"
    [problem] = said(folder, agent(f"{AVRO}\n{having}aggregate: {{count: 10, {COMPUTE}}}\n{to}"))
    assert expected in problem
    assert ("agents.a.having: " if having else "agents.a.to[0].where: ") in problem


def test_a_reducer_of_fields_that_may_be_missing_may_give_null(folder: Path) -> None:
    rule = "aggregate: {count: 10, on_missing: %s, compute: {s: {sum: risk}, l: {last: risk}}}\nto: {topic: t}"
    text = agent(f"{AVRO}\nhaving: s > 1 && l > 1\n{rule}")
    assert said(folder, text % "skip") == []
    assert [line.partition("warning: ")[2] for line in said(folder, text % "ignore")] == [
        f"s {NULL.format('s')}",
        f"l {NULL.format('l')}",
    ]


def test_select_is_checked(folder: Path) -> None:
    to = "to: {topic: t, select: {a: opened_at * 2}}"
    [problem] = said(folder, agent(f"{AVRO}\naggregate: {{count: 10}}\n{to}"))
    assert "agents.a.to.select.a: * takes numbers, opened_at is text (a time); correct the expression" in problem


def test_no_message_has_a_value_of_a_test(folder: Path) -> None:
    tests = 'tests:\n  t:\n    - send: {topic: orders, key: k, value: {card: "4111-1111"}}\n    - advance: 1s\n'
    [problem] = said(folder, agent(f"from: orders\nwhere: cart > 1\n{TO}") + tests)
    assert "4111" not in problem


# -- the type of a handler's `value` -----------------------------------------------------------------------------------

HANDLERS = """
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional
from uuid import UUID

import msgspec


class Status(Enum):
    PAID = "paid"
    OPEN = "open"


class Item(msgspec.Struct, forbid_unknown_fields=True):
    price: float


class Order(msgspec.Struct, rename={"kind": "type"}):
    kind: str
    qty: int
    amount: float
    at: datetime
    wait: timedelta
    cost: Decimal
    id: UUID
    blob: bytes
    flag: bool
    status: Status
    level: Literal["low", "high"]
    tags: list[str]
    items: list[Item]
    labels: dict[str, int]
    pair: tuple[int, str]
    anything: Any
    again: Optional["Order"] = None
    risk: int | None = None
    late: int = 0


class Strict(Order, forbid_unknown_fields=True, tag_field="what", tag="strict"):
    pass


def loose(value: Order, send): ...
def strict(value: Strict, send): ...
def untyped(value, send): ...
def plain(value: int, send): ...
def group(value: Order, send): ...
"""


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "chk_handlers.py").write_text(HANDLERS, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("chk_handlers", None)


def handled(where: str, function: str, more: str = "") -> str:
    return agent(f"from: orders\nhandler: chk_handlers:{function}\n{more}\nwhere: >-\n  {where}\nto: {{topic: t}}")


OF_STRUCTS = [
    ("qty == 'x'", '== compares values of one type, qty is integer and "x" is text; '),
    ("amount == 'x'", '== compares values of one type, amount is number and "x" is text; '),
    ("type > 1", "> takes two values of one type, type is text and 1 is integer; "),
    ("at > message.timestamp", "> takes two values of one type, at is text (a time) and message.timestamp is time; "),
    ("wait > 1", "> takes two values of one type, wait is text (a duration of ISO 8601) and 1 is integer; "),
    ("id > 1", "> takes two values of one type, id is text (a UUID) and 1 is integer; "),
    ("blob > 1", "> takes two values of one type, blob is text (base64) and 1 is integer; "),
    ("flag > 1", "> takes two values of one type, flag is boolean and 1 is integer"),
    ("status == 'payed'", '"payed" is not a symbol of status; did you mean "paid"?'),
    ("level == 'lov'", '"lov" is not a symbol of level; did you mean "low"?'),
    ("tags > 1", "> takes two values of one type, tags is list of text; correct the expression"),
    ("items.exists(i, i.prize > 1)", "no field prize in i; did you mean price?"),
    ("labels.x == 'y'", '== compares values of one type, labels.x is integer and "y" is text; '),
    ("pair > 1", "> takes two values of one type, pair is list; correct the expression"),
]


@pytest.mark.parametrize(("text", "expected"), OF_STRUCTS, ids=[text for text, *_ in OF_STRUCTS])
def test_a_struct_of_a_handler_tells_what_cannot_work(text: str, expected: str, handlers: Path) -> None:
    [problem] = said(handlers, handled(text, "loose"))
    assert expected in problem


@pytest.mark.parametrize("name", ["risk", "late"])
def test_a_field_of_a_struct_that_may_be_missing_is_a_warning(name: str, handlers: Path) -> None:
    [problem] = said(handlers, handled(f"{name} > 1", "loose"))
    assert problem.endswith(f"{name} {NULL.format(name)}")


def test_a_struct_that_forbids_other_fields_has_all_names(handlers: Path) -> None:
    [problem] = said(handlers, handled("qtty > 1", "strict"))
    assert "no field qtty in Strict; did you mean qty?" in problem
    assert said(handlers, handled("what == 'strict' && qty > 1", "strict")) == []


OPEN = "qtty > 1 && has(again) && again.again.other > 1 && cost > 1 && anything > 1"


@pytest.mark.parametrize("function", ["loose", "untyped", "plain"])
def test_other_handlers_get_records_with_other_fields(function: str, handlers: Path) -> None:
    assert said(handlers, handled(OPEN, function)) == []


def test_a_handler_of_groups_says_nothing_of_records(handlers: Path) -> None:
    assert said(handlers, handled("qty == 'x'", "group", "aggregate: {count: 10}")) == []


# -- names that no test sends ------------------------------------------------------------------------------------------


def sending(*values: str, topic: str = "orders") -> str:
    steps = [f"    - send: {{topic: {topic}, key: k, {value}}}" for value in values]
    return "\n".join(["tests:", "  t:", *steps, "    - advance: 1s", ""])


VALUES = (
    'value: {country: DE, customer: {tier: gold}, items: [{price: 1}, {n: 2}], "a-b": 1}',
    "value: {country: FR, total: 3, customer: null}",
    "value: null",
    "value: 5",
    "value_base64: AAAA",
    "value_base64: eyJlbmNvZGVkIjogMX0=",
)
UNSENT = [
    ("countri == 'DE'", "no field countri in the values that the tests send; did you mean country?"),
    ("default(qty, 1) > 1", "no field qty in the values that the tests send; "),
    ("has(customer.tierr)", "no field tierr in customer; did you mean tier?"),
    ("items.exists(i, i.prize > 1)", "no field prize in i; did you mean price?"),
    ('message.value["a-c"] == 1', "no field a-c in message.value; did you mean a-b?"),
]


@pytest.mark.parametrize(("text", "expected"), UNSENT, ids=[text for text, *_ in UNSENT])
def test_a_name_that_no_test_sends_is_a_warning(text: str, expected: str, tmp_path: Path) -> None:
    [problem] = said(tmp_path, agent(f"from: orders\nwhere: >-\n  {text}\n{TO}") + sending(*VALUES))
    column = text.index("[") if "[" in text else text.index(expected.split()[2])
    assert f"agents.a.where: warning: character {column + 1} of the expression: " in problem
    assert expected in problem


def test_a_field_that_a_forwarder_copies_and_no_test_sends_is_a_warning(tmp_path: Path) -> None:
    text = agent("from: orders\nto: {topic: rest, select: [country, countri]}") + sending(*VALUES)
    [problem] = said(tmp_path, text)
    assert "a.to.select: warning: " in problem
    assert "no field countri in the values that the tests send; did you mean country?" in problem


def test_a_record_that_no_decoder_takes_shows_no_names(tmp_path: Path) -> None:
    deep = b64encode(b'{"a": ' + b"[" * 100_000).decode(), b64encode(b'{"a":' + b"[" * 99 + b"]" * 99 + b"}").decode()
    values = (f"value_base64: {text}" for text in deep)
    assert said(tmp_path, agent(f"from: orders\nwhere: zzz > 1\n{TO}") + sending(*values)) == []


def test_a_name_that_cannot_be_printed_is_escaped(tmp_path: Path) -> None:
    text = agent(f'from: orders\nwhere: >-\n  message.value["a\\nb"] == 1\n{TO}') + sending('value: {"a\\nc": 1}')
    [problem] = said(tmp_path, text)
    assert "\n" not in problem
    assert "did you mean a\\nc?" in problem


ALL_SENT = "country == 'DE' && total > 1 && encoded == 1 && has(customer.tier) && items.all(i, i.price > 1 || i.n > 1)"


def test_a_name_that_a_test_sends_is_no_warning(tmp_path: Path) -> None:
    text = f"from: orders\nlet: {{twice: total * 2}}\nwhere: >-\n  {ALL_SENT} && twice > 1\n{TO}"
    assert said(tmp_path, agent(text) + sending(*VALUES)) == []


SILENT = [
    ("from: orders", sending("value: {a: 1}", topic="others").replace("others", "orders2")),
    ("from: [orders, others]", sending("value: {a: 1}")),
    ("from: orders", sending("value_base64: AAAA")),
    ("from: orders", ""),
    ("from: orders\nformat: raw", sending("value_base64: AAAA")),
]


@pytest.mark.parametrize(("source", "tests"), SILENT)
def test_where_no_test_shows_the_records_nothing_is_said(source: str, tests: str, tmp_path: Path) -> None:
    where = "message.topic == 'x'" if "raw" in source else "countri == 'DE'"
    other = "  b:\n    from: orders2\n    aggregate: {count: 1}\n    to: {topic: t2}\n"
    complaints = said(tmp_path, agent(f"{source}\nwhere: {where}\n{TO}") + other + tests)
    assert [complaint for complaint in complaints if "where" in complaint] == []


def test_a_topic_that_another_agent_writes_has_more_than_the_tests_send(tmp_path: Path) -> None:
    second = f"  b:\n{indent(f'from: totals{chr(10)}where: spent > 1{chr(10)}aggregate: {{count: 1}}', '    ')}\n"
    text = agent(f"from: orders\n{TO}") + second + "    to: {topic: t2}\n" + sending("value: {a: 1}", topic="totals")
    assert [line for line in said(tmp_path, text) if "where" in line] == []


def test_names_of_the_handlers_type_need_not_be_sent(handlers: Path) -> None:
    text = handled("qty > 1 && has(other)", "loose") + sending("value: {third: 1}")
    [problem] = said(handlers, text)
    assert "no field other in the values that the tests send" in problem


# -- fields that the file declares -------------------------------------------------------------------------------------

DECLARED = """from: orders
fields: {country: text, qty: integer or null, total: number, due: time, paid: boolean, any: map, some: list,
  tags: [text], customer: {tier: text, at: time or null}, items: [{price: number}]}
"""
OF_FIELDS = [
    ("where: countri == 'DE'", "10:12: agents.a.where: no field countri in fields; did you mean country?"),
    ("where: due > message.timestamp", "agents.a.where: > takes two values of one type, due is text (a time) and "),
    ("where: qty > 1", f"agents.a.where: warning: qty {NULL.format('qty')}"),
    ("where: customer.at == 'x'", f"agents.a.where: warning: customer.at {NULL.format('customer.at')}"),
    ("where: paid > 1", "agents.a.where: > takes two values of one type, paid is boolean and 1 is integer"),
    ("where: any > 1", "agents.a.where: > takes two values of one type, any is map"),
    ("where: some > 1", "agents.a.where: > takes two values of one type, some is list"),
    ("where: 1 in tags", "agents.a.where: in compares values of one type, 1 is integer and tags holds text"),
    ("where: customer.teir == 'x'", "agents.a.where: no field teir in customer; did you mean tier?"),
    ("where: items.exists(i, i.prize > 1)", "agents.a.where: no field prize in i; did you mean price?"),
    ("let: {total: qty}", "10:11: agents.a.let.total: hides the field total of fields; "),
    ("key: contry", "10:5: agents.a.key: needs contry, but fields has no such field; did you mean country?"),
    ("dedupe: {id: order, horizon: 1h}", "agents.a.dedupe.id: needs order, but fields has no such field; "),
    ("aggregate: {count: 9, compute: {s: {sum: totl}}}", "agents.a.aggregate.compute.s: needs totl, but fields "),
    (
        "aggregate: {count: 9, compute: {s: {sum: due}}}",
        "agents.a.aggregate.compute.s: needs a number, but due is text ",
    ),
    (
        "aggregate: {until: {field: pay, equals: 1}}",
        "agents.a.aggregate.until.field: needs pay, but fields has no such field",
    ),
]


@pytest.mark.parametrize(("text", "expected"), OF_FIELDS, ids=[text for text, *_ in OF_FIELDS])
def test_declared_fields_are_checked_like_those_of_a_schema(text: str, expected: str, tmp_path: Path) -> None:
    rest = "to: {topic: totals}" if text.startswith("aggregate") else TO
    complaints = [
        line for line in said(tmp_path, agent(f"{DECLARED}{text}\n{rest}")) if "is not the message key" not in line
    ]
    assert len(complaints) == 1
    assert expected in complaints[0]


FORWARDED = [
    ("to: {topic: t, select: [countri]}", "agents.a.to.select: needs countri, but fields has no such field; did you "),
    ("to: {topic: t, select: {x: countri}}", "agents.a.to.select.x: no field countri in fields; did you mean country?"),
    ("to: [{topic: t, where: totl > 1}, drop]", "agents.a.to[0].where: no field totl in fields; did you mean total?"),
    ("to: [{topic: t, where: total}, drop]", "agents.a.to[0].where: must be boolean, total is number"),
    ("to: [{topic: t, where: qty > 1}, drop]", f"agents.a.to[0].where: warning: qty {NULL.format('qty')}"),
]


@pytest.mark.parametrize(("to", "expected"), FORWARDED, ids=[text for text, *_ in FORWARDED])
def test_the_types_of_a_record_are_known_under_to_of_an_agent_that_forwards(
    to: str, expected: str, tmp_path: Path
) -> None:
    [problem] = said(tmp_path, agent(f"{DECLARED}{to}"))
    assert expected in problem


def test_a_computed_field_and_one_that_may_be_null_can_be_selected(tmp_path: Path) -> None:
    text = agent(f"{DECLARED}let: {{twice: total * 2}}\nto: {{topic: t, select: [twice, qty]}}")
    assert said(tmp_path, text + sending("value: {a: 1}")) == []


def test_declared_fields_refuse_nothing_that_can_work(tmp_path: Path) -> None:
    where = "default(qty, 1) * total > 1 && any.x.y == 1 && some[0] == 2 && timestamp(due) < message.timestamp"
    let = "let: {c: customer.tier}\naggregate: {count: 9, compute: {s: {sum: qty}, l: {last: c}}}"
    assert (
        said(tmp_path, agent(f"{DECLARED}where: {where}\n{let}\nto: {{topic: totals}}") + sending("value: {a: 1}"))
        == []
    )


UNDECLARED = [
    ("fields: {a: txet}", "8:14: agents.a.fields.a: has txet, which is not a type; did you mean text?"),
    ("fields: {a: {b: 5}}", "agents.a.fields.a: has no type; write a type, such as number, a mapping of fields, or "),
    ("fields: {a: []}", "agents.a.fields.a: has no type; "),
    ("fields: {a: }", "agents.a.fields.a: has no type; "),
    ("fields: [a]", "agents.a.fields: must be a mapping; "),
    (
        "format: raw\nfields: {a: text}",
        "9:5: agents.a.fields: is not for format: raw: raw records have none; leave it ",
    ),
    (
        "format: avro\nschema: invoice.avsc\nfields: {a: text}",
        "agents.a.fields: is not for format: avro: the schema has",
    ),
]


@pytest.mark.parametrize(("text", "expected"), UNDECLARED, ids=[text for text, *_ in UNDECLARED])
def test_what_is_no_declaration_is_refused(text: str, expected: str, folder: Path) -> None:
    [problem] = said(folder, agent(f"from: orders\n{text}\n{TO}"))
    assert expected in problem


# -- values built in Python --------------------------------------------------------------------------------------------


def test_an_app_built_in_python_is_checked_by_the_same_rules() -> None:
    made = Agent(
        "a",
        ("orders",),
        Aggregation(count=10),
        Destination("totals"),
        "shop.dead",
        format="avro",
        schema=Avro(SCHEMA),
        where="countri == 'DE' && risk > 1",
        let=(Let("t", "qty"),),
    )
    with pytest.raises(ConfigurationError) as raised:
        check(App("shop", "memory://", (made,), {"bootstrap.servers": "localhost:9092"}))
    assert str(raised.value) == "agents.a.where: no field countri in the schema shop.Invoice; did you mean country?"
