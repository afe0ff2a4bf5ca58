"""How the compiled loop finds the group of a record."""

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Placing(NamedTuple):
    """Code patterns that find the group of a record. Without windows the name of the group is the key.

    `find` reads `key`. It sets `key` to the name of the group and `state` to its state; None if the group is not open.
    It changes nothing, and raises an error for a record that accept.py must process. TIME in it stands for the value of
    the field `time`. `start` runs before the records. `again` runs after a record that accept.py processed, or that
    filled its group. `moves` runs before a group is opened (`opens`), `opened` after it, and `closed` if it could not
    be opened. `joins` updates parts of the state beside those of the reducers. `passed` runs for a record for which
    `where` is false. `finish` runs after the records. `names` maps free names to their values. `result` makes the code
    for windows in which each record is a group and has a result; it replaces the end of the group. None for other
    windows. The code that opens such a group has the values of its record, and `find` sets `offset` and `time`.
    """

    find: str = "state = get(key)"
    opens: str = "groups.open(key, record, now)"
    start: str = ""
    again: str = ""
    moves: str = ""
    opened: str = ""
    closed: str = ""
    joins: str = ""
    passed: str = ""
    finish: str = ""
    time: str | None = None
    names: Mapping[str, Any] = MappingProxyType({})
    result: Callable[[], list[ast.stmt]] | None = None


BY_KEY = Placing()
