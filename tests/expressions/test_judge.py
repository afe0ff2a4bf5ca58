"""cel-cpp agrees with the exact form, and finds the twins in which a rule is missing."""

from typing import Any

import pytest

from sluicegate.streams.expressions import exact as forms
from sluicegate.streams.expressions import parse as parsing
from sluicegate.streams.expressions import values
from sluicegate.streams.expressions.parse import parse
from tests.expressions.broken import misread
from tests.expressions.judge import ERROR, Judge, differences, ours, same
from tests.expressions.pairs import FIELDS
from tests.selection import today

PAIRS = 5_000
SOON = 10_000
BROKEN = 5_000


def test_the_exact_form_equals_cel_cpp() -> None:
    assert list(differences(1, PAIRS)) == []


def absorbs_nothing(self: Any, node: Any) -> Any:
    parts = [self.compile(part) for part in forms._operands(node)]
    decides = node.function == "_||_"
    return lambda record: any(part(record) for part in parts) if decides else all(part(record) for part in parts)


@pytest.mark.parametrize(
    ("place", "name", "instead"),
    [
        (forms._Compiler, "_joined", absorbs_nothing),
        (values, "integer", lambda value: value),
        (values, "divide", lambda left, right: left // right),
        (forms, "equal", lambda left, right, budget: left == right),
    ],
    ids=["no absorption", "no bounds", "division of Python", "equality of Python"],
)
def test_twin_a_rule_that_is_missing_is_found(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, instead: Any
) -> None:
    monkeypatch.setattr(place, name, instead)
    if name == "divide":
        monkeypatch.setitem(forms._ARITHMETIC, "_/_", instead)
    try:
        difference = next(differences(1, SOON), None)
    except (ZeroDivisionError, TypeError, ArithmeticError):
        return
    assert difference is not None


def test_a_broken_text_is_refused_or_means_what_cel_cpp_says_and_takes_less_than_10_ms() -> None:
    assert list(misread(7, BROKEN)) == []


def test_broken_texts_of_another_seed_each_day() -> None:
    assert list(misread(today(), BROKEN // 5)) == []


def test_twin_a_sign_that_is_passed_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing._Parser, "_expect", lambda self, sign: self._is_sign(sign) and self._next())
    assert next(misread(7, BROKEN), None) is not None


def test_the_fields_of_the_pairs_are_no_words_of_the_language() -> None:
    assert all(parse(name) for name in FIELDS)


@pytest.mark.parametrize("function", ["int", "double", "timestamp", "bool", "duration"])
def test_characters_around_a_text_count_as_in_cel_cpp(function: str) -> None:
    judge = Judge()
    for text in ("12", "-1.5", "2026-01-01T00:00:00Z", "true", "1s", ""):
        for around in (" ", "\t", "\n", "\v", "\f", "\r", "\x1c", "\x85", "\xa0", "\u2003", "  \n", "_"):
            for item in (around + text, text + around, around + text + around):
                theirs = judge.answer(f"{function}(s)", {"s": item})
                mine, _ = ours(f"{function}(s)", {"s": item})
                assert (ERROR in (mine, theirs) and mine == theirs) or same(mine, theirs), item


@pytest.mark.parametrize("minus", ["-", "- ", "--", "- -", "---", "1 - -", "1 - - -", "!-", "[-"])
@pytest.mark.parametrize("number", ["9223372036854775808", "9223372036854775807", "5", "0x8000000000000000"])
def test_a_minus_before_a_number_counts_as_in_cel_cpp(minus: str, number: str) -> None:
    text = minus + number + ("]" if "[" in minus else "")
    judge = Judge()
    theirs, (mine, _) = judge.answer(text, {}), ours(text, {})
    assert (ERROR in (mine, theirs) and mine == theirs) or same(mine, theirs)
