"""Generates the code for the values of `group` in an `until` expression, including the current record.

The loop updates a copy of the state, `state`. `known` is the state of the open group; None if the record opens one. The
bags do not have the items of the record yet.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from sluicegate.streams.aggregation.clauses import GROUP
from sluicegate.streams.aggregation.layout import COUNT
from sluicegate.streams.expressions.scope import NamePath
from sluicegate.streams.expressions.templates import expression
from sluicegate.streams.reducers import NUMBERS, kind_of
from sluicegate.streams.reduction import Place

_LIMIT = 2**1000
_FINITE = f"T if {-_LIMIT} < (T := X) < {_LIMIT} else unproven()"
"""A result can represent totals up to this limit."""
_NUMBERS = {"sum": _FINITE, "min": "X", "max": "X", "mean": f"({_FINITE}) / MANY"}
_SLOTS = {"sum": 0, "min": 1, "max": 2, "mean": 0}
_MANY = "(0 if known is None else len(bags[key][INDEX])) + GROWS"
_GROWS = "(I is not None)"
_GROWS_ONCE = "(I is not None and (known is None or I not in bags[key][INDEX]))"


def of_group(places: Sequence[Place], legs: bool) -> dict[NamePath, ast.expr]:
    """The code of each value, by its path. `legs`: the rule is a correlation."""
    kinds = ("groups", "legs") if legs else ("groups",)
    asked = [place for place in places if kind_of(place.reducer).until in kinds or (legs and place.in_bag)]
    values: dict[NamePath, ast.expr] = {(GROUP, "count"): expression("state[X]", X=ast.Constant(COUNT))}
    values.update({(GROUP, place.reducer.name): code for place in asked for code in _value(place)})
    return values


def _value(place: Place) -> Iterator[ast.expr]:
    """The code of the value. It is empty for a reducer that is not inlined; an expression that reads such a value is
    not compiled."""
    kind, index = kind_of(place.reducer), ast.Constant(place.bag)
    if kind.name == "count":
        yield expression("state[X]", X=ast.Constant(COUNT))
    elif kind.slots is NUMBERS:
        yield _number(place)
    elif place.in_bag:
        grows = _GROWS_ONCE if kind.name == "distinct" else _GROWS
        many = expression(_MANY, INDEX=index, GROWS=expression(grows, I=f"i{place.bag}", INDEX=ast.Constant(place.bag)))
        yield many if kind.name == "distinct" else expression("range(N) or None", N=many)
    elif kind.keeps_values:
        yield expression("state[X]", X=ast.Constant(place.at))


def _number(place: Place) -> ast.expr:
    kind = kind_of(place.reducer).name
    slot = expression("state[X]", X=ast.Constant(place.at + _SLOTS[kind]))
    many = expression("state[X]", X=ast.Constant(place.at + 3 if place.lenient else place.records))
    value = expression(_NUMBERS[kind], T=f"u{place.at}{kind}", X=slot, MANY=many)
    if kind != "mean" or not place.lenient:
        return value
    some: Any = expression("state[X]", X=ast.Constant(place.at + 3))
    return expression("Y if M else None", M=some, Y=value)
