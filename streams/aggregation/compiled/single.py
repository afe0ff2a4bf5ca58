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
state = [1, offset, offset, now, None, trace, 0, *blank]
REDUCERS
"""


def single_code(own: Sequence[Place], values: RecordValues) -> list[ast.stmt]:
    """The code that makes `entry`. `own` are the places that store values."""
    heads, slots, others = [*map(name, ("time", "offset", "now", "trace"))], list[ast.expr](), list[ast.stmt]()
    for place in own:
        made = _values(place, values)
        others += [] if made else reducer_code(place, values)
        slots += made or [expression("state[I]", I=ast.Constant(at)) for at in place.slots]
    if others:
        others = [stage("reducers"), *statements(_ALONE, REDUCERS=others, **SLOTS)]
    entry = ast.Tuple([*heads, ast.Constant(0), *slots], ast.Load())
    return [*others, *statements("entry = X", X=entry), *statements(NOTED if values.dedupe else "")]


def _values(place: Place, values: RecordValues) -> list[ast.expr]:
    """The slots of a reducer after one record that has its field. The list is empty if only the reducer knows them."""
    slots = kind_of(place.reducer).slots
    if place.lenient or slots is None:
        return []
    if slots is NUMBERS:
        local = values.local(str(place.reducer.field), "number", False)
        return [expression("0 + N", N=local), name(local), name(local)]
    if slots in (REDUCERS["first"].slots, REDUCERS["last"].slots):
        local = values.local(str(place.reducer.field), "any", False)
        return [name(local), name("offset")] if place.merged else [name(local)]
    return []
