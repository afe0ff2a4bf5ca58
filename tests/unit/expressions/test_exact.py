"""The exact form: values, missing values, errors in words, bounds. The judge of the rest is `tests/expressions`."""

import re
import sys
import time
from typing import Any

import pytest

from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.faults import EvaluationError, ExpressionError, TooCostly
from sluicegate.streams.expressions.parse import parse

RECORD: dict[str, Any] = {
    "amount": 5,
    "total": "4.50",
    "rate": 0.5,
    "big": 2**53 + 1,
    "huge": 2**70,
    "country": "DE",
    "paid": True,
    "items": [{"price": 5, "name": "a"}, {"price": 11}],
    "customer": {"tier": "gold", "note": None},
    "nothing": None,
}


def value(text: str, record: dict[str, Any] | None = None) -> Any:
    return exact(parse(text), lambda name: lambda record: record.get(name))(RECORD if record is None else record)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('amount > 3 && country in ["DE", "FR"]', True),
        ("amount + rate", 5.5),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("has(customer.tier) && !has(customer.note) && !has(customer.other)", True),
        ("has(gone.deeper.still)", False),
        ("has(nothing) || has(gone)", False),
        ("has(amount)", True),
        ("customer.note == null && gone == null && nothing == null", True),
        ("customer.tier != null", True),
        ("default(gone, 1) + default(amount, 9)", 6),
        ('default(customer.other, "none")', "none"),
        ('customer["tier"]', "gold"),
        ("gone > 3 || paid", True),
        ("paid || gone > 3", True),
        ("!paid && gone > 3", False),
        ('items.exists(i, i.name == "a")', True),
        ("items.all(i, i.price > 4)", True),
        ("items.map(i, i.price > 6, i.price * 2)", [22]),
        ("items.filter(i, has(i.name)).size()", 1),
        ("items.exists_one(i, i.price == 11)", True),
        ("items.map(i, items.map(i, i.price)[0] + i.price)", [10, 16]),
        ('"abcd".substring(1, 4)', "bcd"),
        ('size("äß😀")', 3),
        ("double(total) * 2.0", 9.0),
        ('timestamp("2026-01-01T00:00:00Z") + duration("36h") == timestamp("2026-01-02T13:00:00+01:00")', True),
        ('timestamp("2026-06-01T23:30:00Z").getDayOfMonth("+01:00")', 1),
        ("big == 9007199254740992.0", False),
        ("huge > 9223372036854775807 && huge == huge", True),
        ('"x" == 1', False),
        ("true == 1", False),
        ("1 == 1.0", True),
        ('country.matches("^[A-Z]{2}$")', True),
        ("math.greatest(1, 2.5) == math.least([3.5, 2.5])", True),
    ],
)
def test_the_value_of(text: str, expected: object) -> None:
    answer = value(text)
    assert (answer, type(answer)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gone > 3", "gone is missing"),
        ("nothing + 1", "nothing is missing"),
        ("customer.other.deeper", "customer.other is missing"),
        ('customer["other"]', "customer['other'] is missing"),
        ("amount * total", "* of integer and text"),
        ("amount > country", "> of integer and text"),
        ("!amount", "! of integer"),
        ("amount ? 1 : 2", "? of integer"),
        ("gone > 3 || !paid", "gone is missing"),
        ("amount && paid", "&& of integer"),
        ("country.tier", "text has no field tier"),
        ("has(country.tier)", "text has no field tier"),
        ("amount / 0", "division by zero"),
        ("amount / 0.0", "division by zero"),
        ("1e300 * 1e300", "the result is not finite"),
        ("9223372036854775807 + amount", "the integer has more than 64 bits"),
        ("huge - 1", "the integer has more than 64 bits"),
        ("items[2].price", "items[...] is outside of the list"),
        ("items[country]", "the index of a list is an integer and no text"),
        ("int(country)", "the text is not an integer"),
        ("double(country)", "the text is not a number"),
        ("timestamp(country)", "the text is not an RFC 3339 time"),
        ("duration(country)", 'the text is not a duration, such as "1h30m"'),
        (
            'timestamp("2026-01-01T00:00:00Z").getHours("Europe/Berlin")',
            'a time zone is UTC or an offset such as "+01:00"',
        ),
        ('timestamp("9999-12-31T23:59:59Z") + duration("1h")', "the time is outside of the years 1 to 9999"),
    ],
)
def test_an_error_names_kinds_and_fields_and_never_a_value(text: str, problem: str) -> None:
    with pytest.raises(EvaluationError, match=f"^{re.escape(problem)}$"):
        value(text)


@pytest.mark.parametrize(
    ("text", "column", "problem"),
    [
        ("", 1, "is empty"),
        ("amount = 3", 8, "unexpected '='; write == to compare"),
        ("a & b", 3, "unexpected '&'; write && for `and`"),
        ("a and b", 3, "unexpected and; write && for `and`"),
        ("(a or b)", 4, "unexpected or; write || for `or`"),
        ("a && not b", 6, "unexpected not; write ! for `not`"),
        ("a not in [1]", 3, "unexpected not; write ! for `not`"),
        ("a ==", 5, "ends too early; expected a value"),
        ("(a", 3, "ends too early; expected )"),
        ("f(1,)", 5, "unexpected ')'"),
        ("a b", 3, "unexpected b"),
        ('a == "x', 6, 'the text that begins here has no closing "'),
        ('"\\q"', 2, "\\q is not an escape sequence; write \\\\ for a backslash"),
        ('"\\ud800"', 2, "\\ud800 is not a character"),
        ("9223372036854775808", 1, "the integer has more than 64 bits"),
        ("1e999", 1, "the number is too large"),
        ("7u", 1, "unsigned numbers are not supported; write 7"),
        ('b"x"', 1, "bytes are not supported; write a text"),
        ("package == 1", 1, "package is a reserved word; write message.value.package"),
        ("has(1 + 2)", 1, "has takes one path, such as has(customer.tier)"),
        ("xs.all(a.b, true)", 4, "the first argument of all must be a name, such as all(x, ...)"),
        ("(" * 40 + "1" + ")" * 40, 34, "is nested deeper than 32 levels"),
        ("a" + ".b" * 40, 66, "is nested deeper than 32 levels"),
        ("1" + " + 1" * 300, 999, "has more than 500 parts"),
        ("a" * 4097, 1, "has 4097 characters; at most 4096 are allowed"),
    ],
)
def test_a_text_that_is_no_expression_is_refused_with_its_column(text: str, column: int, problem: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse(text)
    assert (raised.value.column, raised.value.problem) == (column, problem)


@pytest.mark.parametrize("text", ["nope(1)", "country.nope()", "size()", "size(1, 2)", "country.matches(total)"])
def test_a_call_of_what_does_not_exist_is_refused_before_any_record(text: str) -> None:
    with pytest.raises(ExpressionError):
        value(text)


def test_the_smallest_integer_and_signs() -> None:
    assert value("-9223372036854775808") == -(2**63)
    assert value("- -3") == 3
    assert value("!!paid") is True
    with pytest.raises(EvaluationError, match="64 bits"):
        value("-(-9223372036854775808)")


@pytest.mark.parametrize(
    "text",
    [
        "xs.exists(x, xs.exists(y, x + y < 0))",
        "xs.map(x, xs)  == xs.map(y, xs)",
        'xs.map(x, "a").join(s).contains("zz")',
        's.split("") == []',
        "xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs + xs == []",
        "s + s == s",
        's.replace("a", s) == ""',
    ],
)
def test_what_costs_too_much_is_given_up_within_100_ms(text: str) -> None:
    record = {"xs": list(range(40_000)), "s": "a" * (1 << 20)}
    evaluate = exact(parse(text), lambda name: lambda record: record.get(name))
    best = 9.0
    for _ in range(3):
        began = time.thread_time()
        with pytest.raises(TooCostly):
            evaluate(record)
        best = min(best, time.thread_time() - began)
    assert best < 0.1


def test_the_steps_of_one_evaluation_do_not_count_for_the_next() -> None:
    evaluate = exact(parse("xs.all(x, x >= 0)"), lambda name: lambda record: record.get(name))
    assert [evaluate({"xs": list(range(60_000))}) for _ in range(3)] == [True] * 3


def test_without_re2_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(ExpressionError, match=r'pip install "sluicegate\[regex\]"'):
        value('country.matches("x")')
