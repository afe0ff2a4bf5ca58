"""Compares the exact form with cel-cpp, which is the judge."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_strings

from sluicegate.streams.expressions import exact as forms
from sluicegate.streams.expressions import values
from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.faults import EvaluationError, ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.tree import Node, Select
from tests.expressions.pairs import FIELDS, Pair, Pairs

ERROR = "an error"
BEYOND: list[bool] = []  # a double was not finite, which is an error here and a value in cel-cpp
UNORDERED: list[bool] = []  # a loop went over a map, whose keys cel-cpp gives in an order of its own


class Difference(NamedTuple):
    pair: Pair
    ours: Any
    theirs: Any
    problem: str


class Judge:
    """cel-cpp with the string and math extensions, whose functions we have, too."""

    def __init__(self) -> None:
        variables = dict.fromkeys(FIELDS, cel.Type.DYN)
        self._env = cel.NewEnv(variables=variables, extensions=[ext_strings.ExtStrings(), ext_math.ExtMath()])

    def takes(self, text: str) -> bool:
        """Whether the text is an expression. Its names may be any."""
        try:
            self._env.compile(text, disable_check=True)
        except Exception:
            return False
        return True

    def answer(self, text: str, document: dict[str, Any]) -> Any:
        try:
            reply = self._env.compile(text, disable_check=True).eval(data=without_nulls(document))
        except Exception:
            return ERROR
        return ERROR if reply.type() == cel.Type.ERROR else plain(reply)


def plain(results: Any) -> Any:
    value = results.value() if hasattr(results, "type") else results
    if isinstance(value, dict):
        return {str(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


@contextmanager
def watched() -> Iterator[None]:
    """Notes what cel-cpp answers in another way: see UNORDERED and BEYOND."""
    counted, finite_of, divide = forms._counted, values.finite, forms._ARITHMETIC["_/_"]

    def finite_noted(value: float) -> float:
        if not math.isfinite(value):
            BEYOND.append(True)
        return finite_of(value)

    def divide_noted(left: Any, right: Any) -> Any:
        if type(right) in values.NUMBERS and right == 0:
            BEYOND.append(True)
        return divide(left, right)

    def counted_noted(value: Any, budget: Any, steps: int) -> Any:
        if isinstance(value, dict):
            UNORDERED.append(True)
        return counted(value, budget, steps)

    forms._counted, values.finite = counted_noted, finite_noted
    forms._ARITHMETIC["_/_"] = divide_noted
    try:
        yield
    finally:
        forms._counted, values.finite = counted, finite_of
        forms._ARITHMETIC["_/_"] = divide


def ours(text: str, document: dict[str, Any]) -> tuple[Any, str]:
    UNORDERED.clear()
    BEYOND.clear()
    try:
        return exact(parse(text), lambda name: lambda record: record.get(name))(document), ""
    except (EvaluationError, ExpressionError) as error:
        return ERROR, str(error)


def same(one: Any, other: Any) -> bool:
    """Deep, and by type: 1, 1.0 and true are three values. The sign of zero counts as well."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, datetime | timedelta):
        return bool(one == other)
    return type(one) is type(other) and repr(one) == repr(other)


def finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | dict):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return True


@contextmanager
def no_extensions() -> Iterator[None]:
    """The exact form without what CEL does not have: mixed arithmetic, and answers for what is missing."""
    saved = values.add, dict(forms._ARITHMETIC), forms._Compiler._maybe, forms._Compiler._equals

    def alike(compute: Callable[..., Any]) -> Callable[..., Any]:
        def computed(left: Any, right: Any, *rest: Any) -> Any:
            if {type(left), type(right)} == {int, float}:
                raise values.refused("mixed", left, right)
            return compute(left, right, *rest)

        return computed

    def maybe(self: Any, node: Node) -> Any:
        match node:
            case Select(operand=operand, name=name):
                return self._field(self.compile(operand), name)
            case _:
                return self.compile(node)

    values.add = alike(values.add)
    forms._ARITHMETIC.update({name: alike(pair) for name, pair in saved[1].items()})
    forms._Compiler._maybe = maybe
    try:
        yield
    finally:
        values.add, forms._Compiler._maybe = saved[0], saved[2]
        forms._ARITHMETIC.update(saved[1])


def difference(judge: Judge, pair: Pair, extended: bool) -> Difference | None:
    """None when the two agree, or when the specification of our extensions says why they do not."""
    theirs = judge.answer(pair.text, pair.document)
    mine, problem = ours(pair.text, pair.document)
    if BEYOND or UNORDERED or not finite(theirs) or (theirs == ERROR and extended):
        return None
    if isinstance(mine, str) and isinstance(theirs, str) and ERROR in (mine, theirs):
        return None if mine == theirs else Difference(pair, mine, theirs, problem)
    return None if same(mine, theirs) else Difference(pair, mine, theirs, problem)


def differences(seed: int, count: int) -> Iterator[Difference]:
    """Those of so many pairs, half of them with our extensions."""
    judge = Judge()
    with watched():
        yield from _both(judge, seed, count)


def _both(judge: Judge, seed: int, count: int) -> Iterator[Difference]:
    for extended in (False, True):
        supply = Pairs(seed, extended)
        if extended:
            yield from _compared(judge, supply, count // 2, extended)
        else:
            with no_extensions():
                yield from _compared(judge, supply, count - count // 2, extended)


def _compared(judge: Judge, supply: Pairs, count: int, extended: bool) -> Iterator[Difference]:
    for _ in range(count):
        outcome = difference(judge, supply.next(), extended)
        if outcome is not None:
            yield outcome
