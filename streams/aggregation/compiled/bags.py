"""The code of the bags: the items of a record, and the room for them."""

import ast
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from sluicegate.streams.aggregation.compiled.compiler import stage
from sluicegate.streams.aggregation.compiled.slots import SLOTS
from sluicegate.streams.aggregation.compiled.values import DOCUMENT, RecordValues
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.bags import SET, ListForm
from sluicegate.streams.expressions.templates import name, statements
from sluicegate.streams.expressions.typed import NotTyped
from sluicegate.streams.reducers import kind_of, reads_messages
from sluicegate.streams.reduction import Bag, BagForm, Place

_ROOM = """
grown, all_more = size if state is None else state[BYTES] + size, more + size
if grown > largest_group or all_more > room:
    unproven()
"""
_ADDED = """
fresh = added.get(key)
if fresh is None:
    fresh = added[key] = EMPTY
fresh[INDEX].append(N)
"""
_ADDED_ALONE = """
fresh = added.get(key)
if fresh is None:
    added[key] = [[N]]
else:
    fresh[0].append(N)
"""
_APPEND = """
own[INDEX].append(N)
ADDED
"""
_ADD_ONCE = """
if S:
    own[INDEX][N] = None
    ADDED
"""
_PUT = """
if N is not None:
    put = PUT(own[INDEX], N)
    size = -S if put is None else put - S
    grown += size
    all_more += size
    if put is not None:
        ADDED
"""
_KNOWN_BAGS = "own = None if state is None else bags[key]"
_WEIGHT_ONCE = "S = 0 if own is not None and I in own[INDEX] else len(I)"
_MAYBE_WEIGHT_ONCE = "S = 0 if I is None or (own is not None and I in own[INDEX]) else len(I)"
_WEIGHT = "S = 0 if I is None else GROWTH(None if own is None else own[INDEX], I)"
_GROWN = """
state[BYTES], more = grown, all_more
"""


class Bagged(NamedTuple):
    """The code of a bag: the names of the local variables with its item and the item's bytes."""

    number: int
    item: str
    size: str
    form: BagForm
    maybe: bool


def bags_code(rule: Rule, values: RecordValues, places: Sequence[Place]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The code that makes the items of a record and looks for room for them, and the code that adds them."""
    bags = [_bagged(rule, place, values) for place in places]
    items = [made for _, statement in bags for made in statement]
    collect = [made for bag, _ in bags for made in _collected(bag, len(bags), values)]
    if (values.code or rule.reader.unchecked) and any(map(reads_messages, rule.aggregation.compute)):
        items = [*statements(DOCUMENT), *items]
    if bags:
        items += _sizes([bag for bag, _ in bags], values)
        collect = [stage("bags"), *collect, *statements(_GROWN, **SLOTS)]
    return [stage("items of bags"), *items] if items else [], collect


def _bagged(rule: Rule, place: Place, values: RecordValues) -> tuple[Bagged, list[ast.stmt]]:
    """The bag, and the code that makes its item."""
    index, field = place.bag, place.reducer.field
    bag, item, size = rule.plan.bags[index], f"i{index}", f"s{index}"
    maybe = field is not None and place.lenient
    made = Bagged(index, item, size, bag.form, maybe)
    if field is None:
        return made, _message(made, bag, values)
    is_number = kind_of(place.reducer).takes == "number"
    local = values.local(field, "number" if is_number else "any", place.lenient)
    if bag.of_field is not None:
        code = statements("I = OF(N, record.offset())", I=item, N=local, OF=values.bind(f"of{index}", bag.of_field))
    elif bag.form is SET:
        code = statements("I = encode(N) if type(N) is str or type(N) is int else same(N)", I=item, N=local)
    else:
        code = statements("I = N\nS = len(encode(N))", I=item, S=size, N=local)
    nothing = statements("I = None\nS = 0", I=item, S=size)
    return made, statements("if N is None:\n    A\nelse:\n    B", N=local, A=nothing, B=code) if maybe else code


def _message(made: Bagged, bag: Bag, values: RecordValues) -> list[ast.stmt]:
    """The code that makes the item of a bag of whole messages."""
    if bag.whole:
        return statements("I = value\nS = len(value)", I=made.item, S=made.size)
    if values.code is not None:
        raise NotTyped
    item = values.bind(f"item{made.number}", bag.item)
    weight = values.bind(f"weight{made.number}", partial(bag.form.growth, None))
    return statements("I = F(read, value, 0)\nS = W(I)", I=made.item, S=made.size, F=item, W=weight)


def _sizes(bags: list[Bagged], values: RecordValues) -> list[ast.stmt]:
    """The code that computes how many bytes the items add to the group."""
    code = statements(_KNOWN_BAGS)
    for bag in bags:
        if isinstance(bag.form, ListForm):
            continue
        holes: dict[str, Any] = {"I": bag.item, "S": bag.size, "INDEX": ast.Constant(bag.number)}
        if bag.form is SET:
            code += statements(_MAYBE_WEIGHT_ONCE if bag.maybe else _WEIGHT_ONCE, **holes)
        else:
            code += statements(_WEIGHT, **holes, GROWTH=values.bind(f"growth{bag.number}", bag.form.growth))
    sizes: list[ast.expr] = [name(bag.size) for bag in bags]
    size = reduce(lambda one, other: ast.BinOp(one, ast.Add(), other), sizes)
    return [*code, *statements("size = X", X=size), *statements(_ROOM, **SLOTS)]


def _collected(bag: Bagged, bags: int, values: RecordValues) -> list[ast.stmt]:
    empty = ast.List([ast.List([], ast.Load()) for _ in range(bags)], ast.Load())
    holes: dict[str, Any] = {"N": bag.item, "S": bag.size, "INDEX": ast.Constant(bag.number), "EMPTY": empty}
    holes["ADDED"] = statements(_ADDED_ALONE if bags == 1 else _ADDED, **holes)
    if bag.form is SET:
        return statements(_ADD_ONCE, **holes)
    if not isinstance(bag.form, ListForm):
        return statements(_PUT, **holes, PUT=values.bind(f"put{bag.number}", bag.form.put))
    code = statements(_APPEND, **holes)
    return statements("if N is not None:\n    A", N=bag.item, A=code) if bag.maybe else code
