"""Values of expressions: kinds, equality, order and arithmetic, as the CEL specification has them.

A value is None, a boolean, an integer, a finite double, a text, a list, a map with texts as keys, a time (an aware
`datetime`) or a duration (`timedelta`). Python's own operators are not enough: `True == 1`, and its integers have no
bounds.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from math import inf, isfinite
from typing import Any

from sluicegate.streams.expressions.faults import EvaluationError, TooCostly

MAX_STEPS = 100_000
"""Steps of one evaluation. An element compared and 100 characters are a step each; an item of a loop is one or more."""
ELEMENT = 25
"""Characters that an item of a list, or a name or value of a map, counts for besides its text: its marks in JSON."""
MAX_LENGTH = 1 << 20
"""Characters of a text, or items of a list, that an expression makes."""
LONGEST = timedelta(seconds=315_576_000_000)
"""The longest duration, in both directions: 10,000 years."""
LEAST, MOST = -(2**63), 2**63 - 1

_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "double",
    str: "text",
    list: "list",
    tuple: "list",
    dict: "map",
    datetime: "time",
    timedelta: "duration",
    type(None): "null",
}
NUMBERS = (int, float)
_ORDERED = (str, bool, datetime, timedelta)
_CONTAINERS = (list, tuple, dict)


class StepBudget:
    """The steps that are left to one evaluation."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Takes steps from the budget. Raises TooCostly when none are left."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly(f"needs more than {MAX_STEPS:,} steps")

    def read(self, *texts: str) -> None:
        self.spend(sum(map(len, texts)) // 100)

    def keep(self, value: Any) -> None:
        """Spends a step for each 100 characters of `value` as JSON. A value that is put into a list, map or document is
        a reference in memory, but a copy each time in the output."""
        kind = type(value)
        if kind is str:
            self.spend(len(value) // 100)
        elif kind in _CONTAINERS or kind is int or is_map(value):
            self.spend(_json_size(value, self.left * 100) // 100)

    def compare(self, one: Any, other: Any) -> None:
        """Spends the steps of a comparison of two texts: up to the end of the shorter one."""
        if type(one) is str and type(other) is str:
            self.spend(min(len(one), len(other)) // 100)


def kind(value: Any) -> str:
    """The name of the value's kind."""
    return _KINDS.get(type(value)) or ("map" if isinstance(value, Mapping) else type(value).__name__)


def refused(sign: str, *values: Any) -> EvaluationError:
    """The error of an operator or function that does not take such values."""
    return EvaluationError(f"{sign} of {' and '.join(map(kind, values))}")


def is_map(value: Any) -> bool:
    return type(value) is dict or (type(value) not in _KINDS and isinstance(value, Mapping))


def _json_size(value: Any, most: int) -> int:
    """The approximate number of characters of the value as JSON. It stops counting above `most`."""
    size, rest = 0, [value]
    while rest and size <= most:
        part = rest.pop()
        if type(part) is str:
            size += len(part)
        elif type(part) is int:
            size += part.bit_length() // 4
        elif isinstance(part, list | tuple):
            size += ELEMENT * len(part)
            rest += part if size <= most else ()
        elif is_map(part):
            size += 2 * ELEMENT * len(part)
            rest += [*part.keys(), *part.values()] if size <= most else ()
    return size


def equal(left: Any, right: Any, budget: StepBudget) -> bool:
    """Values of different kinds are unequal; numbers are compared by their exact value."""
    one, other = type(left), type(right)
    if one is other and one not in (list, dict):
        budget.compare(left, right)
        return bool(left == right)
    if one in NUMBERS and other in NUMBERS:
        return bool(left == right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.spend(len(left))
        return len(left) == len(right) and all(equal(a, b, budget) for a, b in zip(left, right, strict=True))
    if is_map(left) and is_map(right):
        budget.spend(2 + 2 * len(left) + sum(map(len, left)) // 100)
        return left.keys() == right.keys() and all(equal(value, right[name], budget) for name, value in left.items())
    return False


def ordered(sign: str, compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
    """`<` and its like: of two numbers, or of two values of the same ordered kind."""

    def order(left: Any, right: Any) -> bool:
        one, other = type(left), type(right)
        if (one in NUMBERS and other in NUMBERS) or (one is other and one in _ORDERED):
            return bool(compare(left, right))
        raise refused(sign, left, right)

    return order


def add(left: Any, right: Any, budget: StepBudget) -> Any:
    one, other = type(left), type(right)
    if one in NUMBERS and other in NUMBERS:
        return _number(_operand(left) + _operand(right))
    if one is str and other is str:
        budget.read(left, right)
        return _bounded(left + right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        budget.spend(len(left) + len(right))
        joined = _bounded([*left, *right])
        budget.keep(joined)
        return joined
    if {one, other} <= {datetime, timedelta} and not one is other is datetime:
        return _moment(lambda: left + right)
    raise refused("+", left, right)


def subtract(left: Any, right: Any) -> Any:
    one, other = type(left), type(right)
    if one in NUMBERS and other in NUMBERS:
        return _number(_operand(left) - _operand(right))
    if (one is datetime and other in (datetime, timedelta)) or (one is timedelta and other is timedelta):
        return _moment(lambda: left - right)
    raise refused("-", left, right)


def multiply(left: Any, right: Any) -> Any:
    if type(left) in NUMBERS and type(right) in NUMBERS:
        return _number(_operand(left) * _operand(right))
    raise refused("*", left, right)


def divide(left: Any, right: Any) -> Any:
    """Division of integers, rounded toward zero. Raises EvaluationError for a division by zero."""
    if type(left) not in NUMBERS or type(right) not in NUMBERS:
        raise refused("/", left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    one, other = _operand(left), _operand(right)
    if type(one) is int and type(other) is int:
        quotient = abs(one) // abs(other)
        return _number(quotient if (one < 0) is (other < 0) else -quotient)
    return _number(one / other)


def remainder(left: Any, right: Any) -> int:
    """The remainder of two integers, with the sign of the first one."""
    if type(left) is not int or type(right) is not int:
        raise refused("%", left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    one, other = _operand(left), _operand(right)
    if other == -1:
        integer(-one)  # CEL refuses the smallest integer here, as its division does
    return int(_number(abs(one) % abs(other) * (-1 if one < 0 else 1)))


def negate(value: Any) -> Any:
    if type(value) not in NUMBERS:
        raise refused("-", value)
    return _number(-_operand(value))


def finite(value: float) -> float:
    """Raises EvaluationError for infinity and for what is not a number: JSON has neither."""
    if not isfinite(value):
        raise EvaluationError("the result is not finite")
    return value


def integer(value: int) -> int:
    """Raises EvaluationError outside of 64 bits."""
    if not LEAST <= value <= MOST:
        raise EvaluationError("the integer has more than 64 bits")
    return value


def duration(value: timedelta) -> timedelta:
    """Raises EvaluationError outside of 10,000 years."""
    if not -LONGEST <= value <= LONGEST:
        raise EvaluationError("the duration is longer than 10,000 years")
    return value


def _operand(value: Any) -> Any:
    """The integer, if it has 64 bits. A record may hold a larger one; it can be compared, but not be computed with."""
    return integer(value) if type(value) is int else value


def _number(value: Any) -> Any:
    if type(value) is int:
        return integer(value)
    return finite(value) if type(value) is float else finite(inf)


def _bounded(value: Any) -> Any:
    if len(value) > MAX_LENGTH:
        raise TooCostly(f"gives more than {MAX_LENGTH:,} characters or items")
    return value


def _moment(compute: Callable[[], Any]) -> Any:
    try:
        result = compute()
    except OverflowError:
        raise EvaluationError("the time is outside of the years 1 to 9999") from None
    return result.astimezone(UTC) if type(result) is datetime else duration(result)
