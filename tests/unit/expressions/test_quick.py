"""Which conditions have a quick form, what it answers, and when the exact form takes over."""

from typing import Any

import msgspec
import pytest

from sluicegate.schemas.json import Field, wanted
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.quick import Quick, RecordTest, quick

QUICK = [
    # condition, its fields, a document where it is true, and one where it is false
    ("amount > 3", "amount:number", {"amount": 3.5}, {"amount": 3}),
    ("amount >= 3", "amount:number", {"amount": 3}, {"amount": 2}),
    ("amount < 3", "amount:number", {"amount": 2}, {"amount": 3}),
    ("amount <= 3", "amount:number", {"amount": 3.0}, {"amount": 4}),
    ("3 < amount", "amount:number", {"amount": 4}, {"amount": 3}),
    ("3 >= amount", "amount:number", {"amount": 3}, {"amount": 4}),
    ("amount == 9007199254740993", "amount:number", {"amount": 9007199254740993}, {"amount": 9007199254740992.0}),
    ("amount != 3", "amount:number", {"amount": 4}, {"amount": 3.0}),
    ('country == "DE"', "country:text", {"country": "DE"}, {"country": "FR"}),
    ('"DE" != country', "country:text", {"country": "FR"}, {"country": "DE"}),
    ('name < "b"', "name:text", {"name": "a"}, {"name": "é"}),
    ("paid", "paid:boolean", {"paid": True}, {"paid": False}),
    ("!paid", "paid:boolean", {"paid": False}, {"paid": True}),
    ("paid == true", "paid:boolean", {"paid": True}, {"paid": False}),
    ("paid == false", "paid:boolean", {"paid": False}, {"paid": True}),
    ("true != paid", "paid:boolean", {"paid": False}, {"paid": True}),
    ("paid != false", "paid:boolean", {"paid": True}, {"paid": False}),
    ('country in ["DE", "FR"]', "country:text", {"country": "FR"}, {"country": "AT"}),
    ("amount in [1, 2.5]", "amount:number", {"amount": 1.0}, {"amount": 2}),
    ('name.startsWith("ab")', "name:text", {"name": "abc"}, {"name": "cab"}),
    ('name.endsWith("bc")', "name:text", {"name": "abc"}, {"name": "ab"}),
    ('customer.tier == "gold"', "customer.tier:text", {"customer": {"tier": "gold"}}, {"customer": {"tier": ""}}),
    ("a.b.c > 1", "a.b.c:number", {"a": {"b": {"c": 2}}}, {"a": {"b": {"c": 1}}}),
    ('order["id no"] > 1', "order.id no:number", {"order": {"id no": 2}}, {"order": {"id no": 1}}),
    (
        'amount > 3 && country == "DE"',
        "amount:number country:text",
        {"amount": 4, "country": "DE"},
        {"amount": 4, "country": "FR"},
    ),
    (
        'amount > 3 || country == "DE"',
        "amount:number country:text",
        {"amount": 1, "country": "DE"},
        {"amount": 1, "country": "FR"},
    ),
    ("amount > 3 && amount < 5", "amount:number", {"amount": 4}, {"amount": 5}),
    (
        'amount > 3 && paid && name.startsWith("a")',
        "amount:number paid:boolean name:text",
        {"amount": 4, "paid": True, "name": "a"},
        {"amount": 4, "paid": False, "name": "a"},
    ),
    (
        'amount > 3 || (paid || name.endsWith("a"))',
        "amount:number paid:boolean name:text",
        {"amount": 1, "paid": False, "name": "a"},
        {"amount": 1, "paid": False, "name": "b"},
    ),
    (
        "a == 1 && b != 1 && c <= 1 && !d",
        "a:number b:number c:number d:boolean",
        {"a": 1, "b": 2, "c": 1, "d": False},
        {"a": 1, "b": 2, "c": 1, "d": True},
    ),
    (
        "a == 1 || b < 1 || c >= 2 || d in [1]",
        "a:number b:number c:number d:number",
        {"a": 2, "b": 1, "c": 1, "d": 1},
        {"a": 2, "b": 1, "c": 1, "d": 2},
    ),
    ('a == 1 && b.c in ["x"]', "a:number b.c:text", {"a": 1, "b": {"c": "x"}}, {"a": 1, "b": {"c": "y"}}),
    (
        'a == 1 || b.c == "x" || !b.d',
        "a:number b.c:text b.d:boolean",
        {"a": 2, "b": {"c": "y", "d": False}},
        {"a": 2, "b": {"c": "y", "d": True}},
    ),
    (
        'a == 1 || b.c == "x" || b.d || b.e.f.endsWith("z")',
        "a:number b.c:text b.d:boolean b.e.f:text",
        {"a": 2, "b": {"c": "y", "d": False, "e": {"f": "z"}}},
        {"a": 2, "b": {"c": "y", "d": False, "e": {"f": "y"}}},
    ),
    (
        "a == 1 && b.c && b.d",
        "a:number b.c:boolean b.d:boolean",
        {"a": 1, "b": {"c": True, "d": True}},
        {"a": 1, "b": {"c": True, "d": False}},
    ),
    (
        "a == 1 && b.c && b.d && b.e.f",
        "a:number b.c:boolean b.d:boolean b.e.f:boolean",
        {"a": 1, "b": {"c": True, "d": True, "e": {"f": True}}},
        {"a": 1, "b": {"c": True, "d": True, "e": {"f": False}}},
    ),
    ("a == 1 || b.c", "a:number b.c:boolean", {"a": 2, "b": {"c": True}}, {"a": 2, "b": {"c": False}}),
]
NOT_QUICK = [
    "a > 3 && b > 3 && c > 3 && d > 3 && e > 3",
    "a > 3 && (b > 3 || c > 3)",
    "a > b",
    "a + 1 > 3",
    "a == null",
    "a in []",
    'a in [1, "x"]',
    "a in [true]",
    "a in [b]",
    "a in b",
    "paid < true",
    'a > 3 && a == "x"',
    "a > 3 && a.b > 3",
    "a.b.c.d > 3",
    'a["b.c"] > 3',
    "has(a)",
    "default(a, 1) > 3",
    "size(a) > 3",
    'a.contains("x")',
    "a.startsWith(b)",
    "!(a > 3)",
    "1 < 2",
    "true",
    'message.key == "x"',
    "group.weight > 3",
    "a[0] > 3",
    "items.all(i, i > 3)",
    "a ? b : c",
]


def compiled(text: str) -> tuple[Any, RecordTest]:
    """The decoder that proves the types, and the condition on what it gives."""
    form = quick(parse(text))
    assert form is not None
    want = wanted([Field(".".join(field.path), field.proof) for field in form.fields])
    return want.decode, form.predicate([chain for chain in want.chains if chain])


@pytest.mark.parametrize(("text", "fields", "true", "false"), QUICK, ids=[text for text, *_ in QUICK])
def test_the_quick_form_of(text: str, fields: str, true: Any, false: Any) -> None:
    form = quick(parse(text))
    assert form is not None
    assert [f"{'.'.join(field.path)}:{field.proof}" for field in form.fields] == (
        fields.split() if "id no" not in fields else [fields]
    )
    decode, condition = compiled(text)
    assert condition(decode(msgspec.json.encode({"other": [1], **true}))) is True
    assert condition(decode(msgspec.json.encode({"other": [1], **false}))) is False


@pytest.mark.parametrize("text", NOT_QUICK)
def test_there_is_no_quick_form_of(text: str) -> None:
    assert quick(parse(text)) is None


def test_a_computed_name_is_no_field() -> None:
    assert quick(parse("total > 3"), computed=["total"]) is None
    assert isinstance(quick(parse("total > 3"), computed=["other"]), Quick)


@pytest.mark.parametrize("document", [{}, {"amount": None}, {"amount": "4"}, {"amount": True}, {"amount": [4]}])
def test_the_decoder_refuses_what_the_quick_form_must_not_answer(document: Any) -> None:
    decode, _ = compiled("amount > 3")
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.json.encode(document))
