"""The code of the reducers of a record."""

import ast
from collections.abc import Iterator
from typing import Any

from sluicegate.streams.aggregation.compiled.slots import SLOTS
from sluicegate.streams.aggregation.compiled.values import RecordValues
from sluicegate.streams.expressions.templates import statements
from sluicegate.streams.reducers import NUMBERS, REDUCERS, kind_of
from sluicegate.streams.reduction import Place

_NUMBERS = """
try:
    state[TOTAL] += N
except OverflowError:
    state[TOTAL] = plus(state[TOTAL], N)
high = state[HIGH]
if high is None:
    state[LOW] = state[HIGH] = N
elif N > high:
    state[HIGH] = N
elif N < state[LOW]:
    state[LOW] = N
"""
_MAYBE_NUMBERS = """
if type(N) is int or type(N) is float:
    NUMBERS
    state[MANY] += 1
"""
_FIRST = """
if state[SLOT] is None:
    KEEP
"""
_MAYBE_FIRST = """
if state[SLOT] is None and N is not None:
    KEEP
"""
_KEEP = "state[SLOT] = N"
_KEEP_WITH_OFFSET = """
state[SLOT] = N
state[OFFSET] = state[LAST]
"""
_MAYBE_LAST = """
if N is not None:
    KEEP
"""


def reducer_code(place: Place, values: RecordValues) -> Iterator[ast.stmt]:
    """The code that adds the record to the slots of one computed field."""
    slots = kind_of(place.reducer).slots
    if slots is None:
        return
    if slots.add is None:
        yield from statements("state[SLOT] = N", SLOT=ast.Constant(place.at), N=f"folded{place.at}")
        return
    is_number = kind_of(place.reducer).takes == "number"
    local = values.local(str(place.reducer.field), "number" if is_number else "any", place.lenient)
    at = {"TOTAL": 0, "SLOT": 0, "LOW": 1, "OFFSET": 1, "HIGH": 2, "MANY": 3}
    holes: dict[str, Any] = {hole: ast.Constant(place.at + number) for hole, number in at.items()}
    holes |= {"N": local, **SLOTS}
    if slots is NUMBERS:
        code = statements(_NUMBERS, **holes)
        yield from statements(_MAYBE_NUMBERS, NUMBERS=code, **holes) if place.lenient else code
    elif slots in (REDUCERS["first"].slots, REDUCERS["last"].slots):
        keep = statements(_KEEP_WITH_OFFSET if place.merged else _KEEP, **holes)
        if slots is REDUCERS["first"].slots:
            yield from statements(_MAYBE_FIRST if place.lenient else _FIRST, KEEP=keep, **holes)
        else:
            yield from statements(_MAYBE_LAST, KEEP=keep, **holes) if place.lenient else keep
    else:
        add = values.bind(f"add{place.at}", slots.add(place, lambda value: value))
        yield from statements("ADD(state, N)", ADD=add, N=local)
