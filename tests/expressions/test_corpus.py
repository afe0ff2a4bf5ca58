"""The conformance tests of the CEL specification. What we answer in another way is listed, each with a reason."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.faults import EvaluationError, ExpressionError
from sluicegate.streams.expressions.parse import parse
from tests.expressions.corpus.differing import DIFFERING
from tests.expressions.judge import same

FOLDER = Path(__file__).parent / "corpus"
CASES = 500
ERROR = "an error"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(FOLDER.glob("*.json")):
        for case in json.loads(file.read_text(encoding="utf-8"))["cases"]:
            yield f"{file.stem}/{case['name']}", case


def meant(value: Any) -> Any:
    """The value that the JSON of convert.py stands for."""
    if isinstance(value, list):
        return [meant(part) for part in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"@double": text}:
            return float(text)
        case {"@time": [seconds, nanos]}:
            return EPOCH + timedelta(seconds=seconds, microseconds=nanos / 1000)
        case {"@duration": [seconds, nanos]}:
            return timedelta(seconds=seconds, microseconds=nanos / 1000)
    return {name: meant(part) for name, part in value.items()}


def answer(case: dict[str, Any]) -> Any:
    try:
        evaluate = exact(parse(case["expr"]), lambda name: lambda record: record.get(name))
        return evaluate(meant(case.get("record", {})))
    except (EvaluationError, ExpressionError):
        return ERROR


def differing() -> set[str]:
    return {
        name for name, case in cases() if not same(answer(case), ERROR if "error" in case else meant(case["value"]))
    }


def test_only_the_listed_cases_differ_and_every_listed_case_differs() -> None:
    assert differing() == {name for names in DIFFERING.values() for name in names}


def test_no_case_is_listed_twice_and_the_corpus_is_whole() -> None:
    listed = [name for names in DIFFERING.values() for name in names]
    assert len(listed) == len(set(listed))
    assert len(list(cases())) >= CASES


@pytest.mark.parametrize(
    ("place", "name", "instead"),
    [
        ("values", "integer", lambda value: value),
        ("exact._Compiler", "_not", lambda self, operand: lambda record: not operand(record)),
        ("exact", "_counted", lambda value, budget, steps: reversed(list(value))),
    ],
    ids=["no bounds", "truth of Python", "items from the end"],
)
def test_twin_a_rule_that_is_missing_is_found(
    monkeypatch: pytest.MonkeyPatch, place: str, name: str, instead: Any
) -> None:
    monkeypatch.setattr(f"sluicegate.streams.expressions.{place}.{name}", instead)
    assert differing() - {name for names in DIFFERING.values() for name in names}
