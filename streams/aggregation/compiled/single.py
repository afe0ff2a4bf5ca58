"""The code that makes a group of one record, where each record is a group (streams/windows/sliding/totals.py)."""

import ast
from collections.abc import Sequence

from sluicegate.streams.aggregation.compiled.compiler import stage
from sluicegate.streams.aggregation.compiled.dedupe import NOTED
from sluicegate.streams.aggregation.compiled.reducers import reducer_code
from sluicegate.streams.aggregation.compiled.slots import SLOTS
from sluicegate.streams.aggregation.compiled.values import RecordValues
from sluicegate.streams.expressions.templates import expression, name, statements
from sluicegate.streams.reducers import NUMBERS, REDUCERS, kind_of
from sluicegate.streams.reduction import Place

_ALONE = """
state = [1, offset, offset, now, None, None, 0, *blank]
REDUCERS
"""
_MAYBE_NUMBER = "N if type(N) is int or type(N) is float else None"


def single_code(own: Sequence[Place], values: RecordValues) -> list[ast.stmt]:
    """The code that makes `entry`. `own` are the places that store values."""
    heads, parts, others = [*map(name, ("time", "offset", "now"))], list[ast.expr](), list[ast.stmt]()
    for place in own:
        value = _value(place, values)
        others += [] if value is not None else reducer_code(place, values)
        parts += [value] if value is not None else [expression("state[I]", I=ast.Constant(at)) for at in place.slots]
    if others:
        others = [stage("reducers"), *statements(_ALONE, REDUCERS=others, **SLOTS)]
    entry = ast.Tuple([*heads, ast.Constant(0), name("key"), *parts], ast.Load())
    return [*others, *statements("entry = X", X=entry), *statements(NOTED if values.dedupe else "")]


def _value(place: Place, values: RecordValues) -> ast.expr | None:
    """The value that the record gives to a reducer, if it is all that the entry has of it. None: the entry has the
    slots."""
    slots, field = kind_of(place.reducer).slots, str(place.reducer.field)
    if slots is NUMBERS:
        local = values.local(field, "number", place.lenient)
        return expression(_MAYBE_NUMBER, N=local) if place.lenient else name(local)
    if slots is not None and slots in (REDUCERS["first"].slots, REDUCERS["last"].slots):
        return name(values.local(field, "any", place.lenient))
    return None
