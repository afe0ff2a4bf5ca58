"""Which values the typed form knows, and which records it leaves to the exact form."""

from typing import Any

import msgspec
import pytest

from sluicegate.streams.expressions import typed as form
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.typed import NotTyped, TypedCode
from tests.expressions.forms import UNPROVEN, typed

KNOWN = [
    # expression, a record, its value
    ("amount > 3", {"amount": 3.5}, True),
    ("3 < amount", {"amount": 3}, False),
    ("amount == 9007199254740993", {"amount": 9007199254740992.0}, False),
    ("amount > 3", {"amount": 2**70}, True),
    ('country == "DE"', {"country": "FR"}, False),
    ("!paid", {"paid": False}, True),
    ("paid != false", {"paid": True}, True),
    ('country in ["DE", "FR"]', {"country": "FR"}, True),
    ("amount in [1, 2.5]", {"amount": 1.0}, True),
    ("amount + 1 in [3]", {"amount": 2}, True),
    ('name.startsWith("ab") && name.endsWith("c") && name.contains("b")', {"name": "abc"}, True),
    ('customer.tier == "gold"', {"customer": {"tier": "gold"}}, True),
    ('order["id no"] > 1', {"order": {"id no": 2}}, True),
    ("a == 1 || b == 2", {"a": 1}, True),
    ("a == 1 && b == 2", {"a": 2}, False),
    ("a ? b : c + 1", {"a": False, "c": 2}, 3),
    ("amount * 2 + 1", {"amount": 3}, 7),
    ("amount * 0.5", {"amount": 3}, 1.5),
    ("-amount", {"amount": 0.0}, -0.0),
    ("a * b - c", {"a": 2, "b": 3, "c": 1.5}, 4.5),
    ("a / b", {"a": -7, "b": 2}, -3),
    ("a % b", {"a": -7, "b": 2}, -1),
    ('first + " " + last', {"first": "Ada", "last": "Lovelace"}, "Ada Lovelace"),
    ("size(name)", {"name": "é"}, 1),
    ("size(items) + name.size()", {"items": [1, 2], "name": "é"}, 3),
    ("has(o.x)", {"o": {"x": None}}, False),
    ("o.x == null", {"o": {}}, True),
    ("default(o.x, 3) * 2", {}, 6),
    ("default(qty, 1) * 2", {"qty": 4}, 8),
    ("a < b", {"a": "x", "b": "y"}, True),
    ("items.exists(i, i > 3) && n > 1", {"items": [4], "n": 2}, True),
    ("int(text) + 1", {"text": "41"}, 42),
    ("string(a + 1)", {"a": 41}, "42"),
    ('string(a * 0.5) + string("b" + c)', {"a": 3, "c": "d"}, "1.5bd"),
    ('string(a + 1) == "42"', {"a": 41}, True),
    ('string(a + 1) == "042"', {"a": 41}, False),
    ('string(a + 1) == "x"', {"a": 41}, False),
    ('string(a - 1) != "-1"', {"a": 0}, False),
    ('string(a * 0.5) == "1.5"', {"a": 3}, True),
    ('string(a * 0.5) == "2"', {"a": 4}, True),
    ('string("x" + a) != "xy"', {"a": "y"}, False),
    ("int(a * 0.5) / int(string(a - 1))", {"a": 9}, 0),
    ("double(a + 1) / 2.0", {"a": 2}, 1.5),
]
LEFT_TO_THE_EXACT_FORM = [
    ("amount > 3", {}),
    ("amount > 3", {"amount": "4"}),
    ("amount > 3", {"amount": True}),
    ("!paid", {"paid": 1}),
    ('country == "DE"', {"country": 5}),
    ("a == 1 || b == 2", {"b": 2}),
    ("amount + 1", {"amount": 2**63 - 1}),
    ("amount * 2 - 1", {"amount": 2**63}),
    ("a * b", {"a": 2**32, "b": 2**32}),
    ("a * b - a * b", {"a": 2**40, "b": 2**40}),
    ("a * 4 * b", {"a": 2**62, "b": 0}),
    ("a / b", {"a": 1, "b": 0}),
    ("amount * 1e308", {"amount": 1e308}),
    ("int(amount * 1.0)", {"amount": 1e300}),
    ("string(amount + 1)", {"amount": -(2**63) - 1}),
    ('string(amount + 1) == "1"', {"amount": -(2**63) - 1}),
    ('int("x" + a)', {"a": "1"}),
    ("customer.tier", {"customer": "gold"}),
    ("has(o.x)", {"o": 3}),
    ("size(amount)", {"amount": 3}),
    ("size(items)", {"items": [[]] * 3, "name": 2}),
    ("items.exists(i, i > 3)", {"items": 3}),
    ("items", {"items": []}),
]


@pytest.mark.parametrize(("text", "record", "value"), KNOWN, ids=[text for text, *_ in KNOWN])
def test_the_typed_form_knows(text: str, record: dict[str, Any], value: Any) -> None:
    evaluate = typed(parse(text))
    assert evaluate is not None
    assert repr(evaluate(msgspec.json.encode({"other": [1], **record}))) == repr(value)


@pytest.mark.parametrize(("text", "record"), LEFT_TO_THE_EXACT_FORM)
def test_the_typed_form_leaves_a_record(text: str, record: dict[str, Any]) -> None:
    evaluate = typed(parse(text))
    assert evaluate is not None
    if text == "size(items)":
        record = {"items": msgspec.json.decode(b"[" * 70 + b"]" * 70)}
    assert evaluate(msgspec.json.encode(record)) is UNPROVEN


def test_without_bounds_on_the_way_an_integer_may_have_more_than_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "_proves", lambda sign, one, other: True)
    evaluate = typed(parse("a * b - a * b"))
    assert evaluate is not None
    assert evaluate(b'{"a": 1099511627776, "b": 1099511627776}') == 0


@pytest.mark.parametrize("text", ["message.key == 'x'", "group.weight > 3", "a > 3 && message.offset > 3", "later + 1"])
def test_there_is_no_typed_form_of(text: str) -> None:
    code = TypedCode({"it": parse(text), "later": parse("3")}, ("message", "group"))
    with pytest.raises(NotTyped):
        code.value(("it",), "any")


def test_a_record_that_could_cost_too_much_is_left() -> None:
    code = TypedCode({}, ())
    code.condition(parse(" && ".join(["text.contains(other)"] * 100)))
    assert code.largest() == 50_000
    code.condition(parse('a + "," + a == "x"'))
    assert code.largest() < 50_000
