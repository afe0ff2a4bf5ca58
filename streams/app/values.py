"""Converts Python values to the values of a file."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

DocumentTree = dict[str, Any]
"""Dicts with text as keys, lists and scalars."""
OfFunction = Callable[[Any], str]
"""The text by which a file names a function."""


class Unsayable(Exception):
    """A value that no file can hold."""


def of_value(value: object, of_function: OfFunction) -> Any:
    """The value in the form of the file: durations and times as text, a function as the text that `of_function`
    returns. Raises Unsayable."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind.__str__(value) if kind is str else kind(value)  # an Enum of text or numbers is its value
    if isinstance(value, timedelta):
        return f"{value.total_seconds():f}".rstrip("0").rstrip(".") + "s"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Unsayable("is a time without a zone; write datetime(..., tzinfo=UTC)")
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): of_value(member, of_function) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [of_value(element, of_function) for element in value]
    if callable(value):
        return of_function(value)
    raise Unsayable(f"cannot be a {type(value).__name__}; write text, a number, a list or a dict")
