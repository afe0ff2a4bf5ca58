"""The expressions that the files use, each with its meaning as a Python function."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

Row = dict[str, Any]
"""The fields of a record or of a result. A field that is null is missing."""


class NoAnswer(Exception):
    """An expression has no answer."""


class Refusal(Exception):
    """The record is a dead letter with this reason. None: it is left out, because the file says so."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


class Expression(NamedTuple):
    text: str
    answer: Callable[[Row], Any]


def there(row: Row, name: str) -> Any:
    if row.get(name) is None:
        raise NoAnswer(f"{name} is missing")
    return row[name]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(row: Row, name: str) -> Any:
    value = there(row, name)
    if not is_number(value):
        raise NoAnswer(f"{name} is not a number")
    return value


def text(row: Row, name: str) -> str:
    value = there(row, name)
    if not isinstance(value, str):
        raise NoAnswer(f"{name} is not text")
    return value


def is_end(row: Row) -> bool:
    return bool(there(row, "s") == "end")


def ends_late(row: Row) -> bool:
    return bool(row["group"]["count"] >= 3) and is_end(row)


def doubled(value: Any) -> Any:
    if abs(value * 2) == float("inf"):
        raise NoAnswer("no double holds it")
    return value * 2


def of_group(name: str) -> Callable[[Row], Any]:
    return lambda row: number(row["group"], name)


def expressions(*pairs: tuple[str, Callable[[Row], Any]]) -> dict[str, Expression]:
    return {written: Expression(written, answer) for written, answer in pairs}


WHERE = expressions(
    ("has(b)", lambda row: row.get("b") is not None),
    ("!has(b)", lambda row: row.get("b") is None),
    ("a > 1", lambda row: number(row, "a") > 1),
    ('s == "x"', lambda row: there(row, "s") == "x"),
    ('default(s, "x") != "y"', lambda row: (row.get("s") or "x") != "y"),
)
LETS = expressions(
    ('default(s, "none")', lambda row: "none" if row.get("s") is None else row["s"]),
    ('s + "!"', lambda row: text(row, "s") + "!"),
    ("default(a, 7)", lambda row: 7 if row.get("a") is None else row["a"]),
    ("k", lambda row: there(row, "k")),
)
UNTIL = expressions(
    ('s == "end"', is_end),
    ("group.total >= 6", lambda row: of_group("total")(row) >= 6),
    ("group.kinds >= 2", lambda row: of_group("kinds")(row) >= 2),
    ("group.least <= 1", lambda row: of_group("least")(row) <= 1),
    ('group.count >= 3 && s == "end"', ends_late),
)
NEEDS = {"group.total >= 6": "total", "group.kinds >= 2": "kinds", "group.least <= 1": "least"}
"""The computed field that an `until` expression asks for."""
HAVING = expressions(
    ("count >= 2", lambda row: row["count"] >= 2),
    ("total > 3", lambda row: number(row, "total") > 3),
    ('reason != "timeout"', lambda row: row["reason"] != "timeout"),
    ('has(last1) && last1 == "y"', lambda row: row.get("last1") is not None and row["last1"] == "y"),
)
SELECTED = expressions(
    ("count * 2", lambda row: row["count"] * 2),
    ('reason == "timeout"', lambda row: row["reason"] == "timeout"),
    ("total + total", lambda row: doubled(number(row, "total"))),
    ("a > 1", lambda row: number(row, "a") > 1),
    ('default(s, "none")', lambda row: "none" if row.get("s") is None else row["s"]),
)
ALL = {**WHERE, **LETS, **HAVING, **SELECTED}


def asked(written: str, row: Row) -> Any:
    """The answer of an expression, which may be the name of a field. Raises NoAnswer."""
    return ALL[written].answer(row) if written in ALL else there(row, written)


def whole(value: Any) -> Any:
    """Numbers that are whole, as integers, at any depth."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return value


def compact(value: Any) -> str:
    return json.dumps(whole(value), sort_keys=True, separators=(",", ":"))


def key_of(value: Any) -> str:
    """The text under which values are one key or one id."""
    return value if isinstance(value, str) else compact(value)
