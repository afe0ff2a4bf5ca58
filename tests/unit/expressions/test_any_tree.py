"""Nothing that looks at a tree raises, and the types that the check names are the types of the values."""

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.streams.expressions.check import check, check_condition
from sluicegate.streams.expressions.exact import EvaluationError, exact
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import paths, roots
from sluicegate.streams.expressions.tree import Node
from sluicegate.streams.expressions.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NUMBER,
    TEXT,
    ValueType,
    list_of,
    map_of,
    nullable,
    record_of,
)
from sluicegate.streams.expressions.words import in_words
from tests.expressions.forms import typed
from tests.unit.expressions.trees import trees

NAMES = {
    "a": INTEGER,
    "b2": TEXT,
    "_c": list_of(INTEGER),
    "total": NUMBER,
    "message": record_of({"a": BOOLEAN, "b2": DOUBLE}),
    "inside": map_of(TEXT),
    "nullable": nullable(BOOLEAN),
}
RECORDS = (
    {"a": 3, "b2": "é", "_c": [1, 2], "total": 2.5, "message": {"a": True, "b2": 1.5}, "inside": {"a": "x"}},
    {"a": 0, "b2": "", "_c": [], "total": 2, "message": {"a": False, "b2": 0.0}, "inside": {}, "nullable": True},
)
KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "double": (float,),
    "number": (int, float),
    "text": (str,),
    "boolean": (bool,),
    "time": (datetime.datetime,),
    "duration": (datetime.timedelta,),
    "list": (list,),
    "map": (dict,),
    "null": (type(None),),
}


@settings(derandomize=True, deadline=None, max_examples=300)
@given(trees)
def test_any_tree_can_be_looked_at(tree: Node) -> None:
    assert {path[0] for path in paths(tree)} == roots(tree)
    for names, source in ((NAMES, "orders.avsc"), ({}, None)):
        check_condition(tree, names, source)
    assert in_words(tree) != ""
    typed(tree)


def is_of(value: Any, value_type: ValueType) -> bool:
    if value is None:
        return value_type.nullable or value_type.kind in ("null", "unknown")
    if value_type.kind == "unknown":
        return True
    if type(value) not in KINDS[value_type.kind]:
        return False
    items = value if value_type.kind == "list" else value.values() if value_type.kind == "map" else ()
    return all(is_of(item, value_type.items) for item in items)


@settings(derandomize=True, deadline=None, max_examples=500)
@given(trees, st.sampled_from(RECORDS))
def test_a_value_has_the_type_that_the_check_names(tree: Node, record: dict[str, Any]) -> None:
    kind, _ = check(tree, NAMES, "orders.avsc")
    try:
        value = exact(tree, lambda name: lambda record: record.get(name))(record)
    except EvaluationError:
        return
    assert is_of(value, kind)


@pytest.mark.parametrize(
    "text",
    [
        "a + total",
        "total / 2",
        "total * 2.0",
        "[a, total][0]",
        "_c.map(i, i * 2)",
        "_c.map(i, i > 1, b2)",
        "_c.filter(i, i > 1)",
        "inside.filter(k, k != b2)",
        "message.b2 + a",
        "default(nullable, a)",
        "nullable == null ? a : total",
        '{"a": a, "b": 2.5}',
        "size(inside) + size(b2)",
        "-total",
        "a % 2",
    ],
)
@pytest.mark.parametrize("record", RECORDS)
def test_the_value_of_an_expression_has_the_type_of_the_check(text: str, record: dict[str, Any]) -> None:
    tree = parse(text)
    kind, findings = check(tree, NAMES, "orders.avsc")
    assert findings == ()
    assert is_of(exact(tree, lambda name: lambda record: record.get(name))(record), kind)
