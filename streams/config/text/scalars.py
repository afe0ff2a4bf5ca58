"""YAML 1.2 scalars (core schema, booleans only `true` and `false`) as Python values that remember how they were
written."""

import re
from dataclasses import dataclass

from sluicegate.streams.agent import Scalar

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEAN = {"true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 100


class Integer(int):
    """A whole number with its text, so that a password of digits stays unchanged."""

    text: str


class Decimal(float):
    """A number with its text."""

    text: str


class Unknown(str):
    """Text that replaces an unknown value: its variable is unset, or it was invalid and has been reported."""


@dataclass(frozen=True, slots=True)
class Native:
    """A value built in Python where the file has text to parse: seconds, bytes, a span of seconds, or a start."""

    value: object


def plain(text: str) -> Scalar:
    """The value of an unquoted scalar."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return _written(Integer(text), text)
    if _BASED.fullmatch(text):
        return _written(Integer(text, 0), text)
    if _DECIMAL.fullmatch(text):
        return _written(Decimal(text.lower().replace(".inf", "inf").replace(".nan", "nan")), text)
    return text


def _written(number: Integer | Decimal, text: str) -> Integer | Decimal:
    number.text = text
    return number


def as_written(value: object) -> object:
    """The text of a number where text is expected; any other value unchanged."""
    return value.text if isinstance(value, Integer | Decimal) else value
