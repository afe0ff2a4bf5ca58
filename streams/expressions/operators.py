"""The operand types and the result type of each operator between two values."""

from sluicegate.streams.expressions.types import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    INTEGER,
    LIST,
    NUMBER,
    NUMBERS,
    TEXT,
    TIME,
    UNKNOWN,
    ValueType,
    common,
)

# The kinds of the operands, and what the operator gives for them. `number` stands for the three kinds of numbers.
_ADDED = (
    ("number", "number", NUMBER),
    ("text", "text", TEXT),
    ("list", "list", LIST),
    ("time", "duration", TIME),
    ("duration", "time", TIME),
    ("duration", "duration", DURATION),
)
_SUBTRACTED = (
    ("number", "number", NUMBER),
    ("time", "time", DURATION),
    ("time", "duration", TIME),
    ("duration", "duration", DURATION),
)
_MULTIPLIED = (("number", "number", NUMBER),)
_DIVIDED_WHOLE = (("integer", "integer", INTEGER),)
_ORDERED = tuple((kind, kind, BOOLEAN) for kind in ("number", "text", "boolean", "time", "duration"))

TABLE: dict[str, tuple[tuple[str, str, ValueType], ...]] = {
    "_+_": _ADDED,
    "_-_": _SUBTRACTED,
    "_*_": _MULTIPLIED,
    "_/_": _MULTIPLIED,
    "_%_": _DIVIDED_WHOLE,
    **{f"_{sign}_": _ORDERED for sign in ("<", "<=", ">", ">=")},
}
TAKES = {
    "_+_": "two numbers, texts or lists, or a time and a duration",
    "_-_": "two numbers or times, or a time and a duration",
    "_*_": "numbers",
    "_/_": "numbers",
    "_%_": "integers",
}
"""The operands that a message names for an operator. The other operators compare two values of one type."""
NEEDS = {"_-_": "number", "_*_": "number", "_/_": "number", "_%_": "integer"}
"""The kind that both operands can be converted to."""
_CONVERTED = {"a decimal": ("number", "double"), "a time": ("time",)}
"""The kinds that text with a note can be converted to."""


def result(function: str, left: ValueType, right: ValueType) -> ValueType | None:
    """The type of the operator's result; None: it never takes two such values."""
    rows = [row for row in TABLE[function] if is_kind(left, row[0]) and is_kind(right, row[1])]
    gives = {row[2].kind: row[2] for row in rows}
    if len(gives) != 1:
        return UNKNOWN if gives else None
    (outcome,) = gives.values()
    if outcome == NUMBER:
        kinds = {left.kind, right.kind}
        if "double" in kinds:
            return DOUBLE
        return INTEGER if kinds == {"integer"} else NUMBER
    return common((left, right)) if outcome == LIST and left.kind == right.kind else outcome


def fits(function: str, operand: ValueType, is_left: bool) -> bool:
    """Whether the operator takes such a value on this side, with a suitable value on the other."""
    return any(is_kind(operand, left if is_left else right) for left, right, _ in TABLE[function])


def conversion(type_: ValueType, kind: str) -> str | None:
    """The function that converts such a value into the wanted kind; None: there is none."""
    if type_.note and kind not in _CONVERTED.get(type_.note, ()):
        return None
    if kind == "text" and type_.kind in NUMBERS | {"time", "duration", "boolean"}:
        return "string"
    if kind == "integer" and type_.kind == "double":
        return "int"
    by_kind = {"number": "double", "double": "double", "integer": "int", "time": "timestamp", "duration": "duration"}
    return by_kind.get(kind) if type_.kind == "text" else None


def is_kind(type_: ValueType, kind: str) -> bool:
    """Whether a value of the type can be of the kind, where `number` stands for the three kinds of numbers."""
    if type_.kind == "unknown":
        return True
    if kind == "integer":
        return type_.kind in ("integer", "number")
    return type_.kind == kind or (kind == "number" and type_.kind in NUMBERS)
