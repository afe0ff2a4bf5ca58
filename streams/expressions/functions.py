"""The functions of expressions. Each takes a `StepBudget` and its values, the target of a method first."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

from sluicegate.streams.expressions import times
from sluicegate.streams.expressions.faults import EvaluationError, ExpressionError, TooCostly
from sluicegate.streams.expressions.tree import FunctionCall, Literal
from sluicegate.streams.expressions.values import (
    LEAST,
    MAX_LENGTH,
    NUMBERS,
    StepBudget,
    finite,
    integer,
    is_map,
    refused,
)
from sluicegate.streams.wording import counted

Compute = Callable[..., Any]

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "t": True, "1": True}
_BOOLEANS |= {"false": False, "False": False, "FALSE": False, "f": False, "0": False}
_WHITE = " \t\n\v\f\r\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_WHITE += "\u202f\u205f\u3000"
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


class Form(NamedTuple):
    """How a function may be called: how many values it takes, as a method (the target counts) and as a function."""

    call: Compute
    method: tuple[int, ...] = ()
    function: tuple[int, ...] = ()
    unbounded: bool = False


def find(node: FunctionCall) -> Compute:
    """The function that the node calls. Raises ExpressionError when none takes so many arguments."""
    form = FUNCTIONS.get(node.function)
    if form is None:
        raise ExpressionError(node.column, f"there is no function {node.function}")
    count = len(node.arguments) + (node.target is not None)
    allowed = form.function if node.target is None else form.method
    if count not in allowed and not (form.unbounded and node.target is None and count):
        form_of_call = "function" if node.target is None else "method"
        arguments = counted(len(node.arguments), "argument")
        raise ExpressionError(node.column, f"{node.function} does not take {arguments} as a {form_of_call}")
    return _matching(node) if node.function == "matches" else form.call


# -- texts -------------------------------------------------------------------------------------------------------------


def _size(budget: StepBudget, value: Any) -> int:
    if type(value) is str or isinstance(value, list | tuple) or is_map(value):
        return len(value)
    raise refused("size", value)


def _texts(name: str, ask: Callable[[str, str], bool]) -> Compute:
    def asked(budget: StepBudget, value: Any, part: Any) -> bool:
        if type(value) is not str or type(part) is not str:
            raise refused(name, value, part)
        budget.read(value)
        return ask(value, part)

    return asked


def _cased(name: str, change: Callable[[str], str]) -> Compute:
    def changed(budget: StepBudget, value: Any) -> str:
        if type(value) is not str:
            raise refused(name, value)
        budget.read(value)
        return change(value)

    return changed


def _matching(node: FunctionCall) -> Compute:
    """`matches` with a pattern that is a literal of the expression. It is compiled once, and RE2 takes linear time."""
    pattern = node.arguments[-1]
    if not isinstance(pattern, Literal) or type(pattern.value) is not str:
        raise ExpressionError(node.column, "matches takes a pattern that is written in the expression")
    re2 = _re2(node)
    options = re2.Options()
    options.log_errors = False
    try:
        search = re2.compile(pattern.value, options=options).search
    except re2.error:
        raise ExpressionError(pattern.column, "is not a regular expression of RE2") from None

    def matched(budget: StepBudget, value: Any, written: Any) -> bool:
        if type(value) is not str:
            raise refused("matches", value)
        budget.read(value)
        return search(value) is not None

    return matched


def _re2(node: FunctionCall) -> Any:
    try:
        import re2
    except ImportError:
        raise ExpressionError(node.column, 'matches needs RE2: pip install "sluicegate[regex]"') from None
    return re2


def _split(budget: StepBudget, value: Any, separator: Any, limit: Any = -1) -> list[str]:
    if type(value) is not str or type(separator) is not str or type(limit) is not int:
        raise refused("split", value, separator)
    budget.spend(len(value) if separator == "" else value.count(separator) + 1)
    budget.read(value)
    if limit == 0:
        return []
    if separator == "" and value:
        return list(value) if limit < 0 or limit >= len(value) else [*value[: limit - 1], value[limit - 1 :]]
    return value.split(separator, limit - 1 if limit > 0 else -1) if value else [""]


def _join(budget: StepBudget, value: Any, separator: Any = "") -> str:
    if not isinstance(value, list | tuple) or type(separator) is not str:
        raise refused("join", value, separator)
    budget.spend(len(value))
    if any(type(part) is not str for part in value):
        raise EvaluationError("join takes a list of texts")
    _spend_length(budget, sum(map(len, value)) + len(separator) * max(len(value) - 1, 0))
    return separator.join(value)


def _spend_length(budget: StepBudget, length: int) -> None:
    if length > MAX_LENGTH:
        raise TooCostly(f"gives more than {MAX_LENGTH:,} characters or items")
    budget.spend(length // 100)


def _substring(budget: StepBudget, value: Any, start: Any, end: Any = None) -> str:
    if type(value) is not str or type(start) is not int or (end is not None and type(end) is not int):
        raise refused("substring", value, start)
    last = len(value) if end is None else end
    if not 0 <= start <= last <= len(value):
        raise EvaluationError("substring is outside of the text")
    budget.read(value)
    return value[start:last]


def _replace(budget: StepBudget, value: Any, old: Any, new: Any, limit: Any = -1) -> str:
    if not all(type(text) is str for text in (value, old, new)) or type(limit) is not int:
        raise refused("replace", value, old, new)
    budget.read(value)
    times_found = value.count(old) if limit < 0 else min(value.count(old), limit)
    _spend_length(budget, len(value) + times_found * max(len(new) - len(old), 0))
    return str(value.replace(old, new, limit))


# -- conversions -------------------------------------------------------------------------------------------------------


def _int(budget: StepBudget, value: Any) -> int:
    if type(value) is int or type(value) is bool:
        return integer(int(value))
    if type(value) is float:
        if value <= LEAST:
            raise EvaluationError("the integer has more than 64 bits")  # as CEL: the least one is excluded
        return integer(int(finite(value)))
    if type(value) is datetime:
        return times.seconds(value)
    if type(value) is str:
        text = value.strip(times.SPACES)
        if not _INTEGER.fullmatch(text):
            raise EvaluationError("the text is not an integer")
        return integer(int(text))
    raise refused("int", value)


def _double(budget: StepBudget, value: Any) -> float:
    if type(value) in NUMBERS:
        return float(integer(value) if type(value) is int else value)
    if type(value) is str:
        text = value.strip(times.SPACES)
        if len(text) > 1000 or not _NUMBER.fullmatch(text):
            raise EvaluationError("the text is not a number")
        return finite(float(text))
    raise refused("double", value)


def _string(budget: StepBudget, value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(integer(value))
    if type(value) is float:
        return number_text(value)
    if type(value) is datetime:
        return times.time_text(value)
    if type(value) is timedelta:
        return times.duration_text(value)
    raise refused("string", value)


def number_text(value: float) -> str:
    """The shortest decimal digits of the double, with an exponent from 1,000,000 on and below 0.0001."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    point = len(digits) + int(exponent)
    text, minus = "".join(map(str, digits)), "-" if sign else ""
    if value == 0:
        return f"{minus}0"
    if not -4 < point <= 6:
        return f"{minus}{text[0]}{'.' if text[1:] else ''}{text[1:]}e{point - 1:+03d}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    whole, fraction = text[:point].ljust(point, "0"), text[point:]
    return f"{minus}{whole}{'.' if fraction else ''}{fraction}"


def _bool(budget: StepBudget, value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str and value in _BOOLEANS:
        return _BOOLEANS[value]
    raise refused("bool", value) if type(value) is not str else EvaluationError("the text is not a boolean")


def _timestamp(budget: StepBudget, value: Any) -> datetime:
    if type(value) is datetime:
        return value
    if type(value) is str:
        return times.time_of(value)
    if type(value) is int:
        return times.time_of_seconds(value)
    raise refused("timestamp", value)


def _duration(budget: StepBudget, value: Any) -> timedelta:
    if type(value) is timedelta:
        return value
    if type(value) is str:
        return times.duration_of(value)
    raise refused("duration", value)


# -- parts of times ----------------------------------------------------------------------------------------------------


def _part(name: str, of_time: Callable[[datetime], int], of_duration: Callable[[timedelta], int] | None) -> Compute:
    def part(budget: StepBudget, value: Any, zone: Any = None) -> int:
        if type(value) is timedelta and of_duration is not None and zone is None:
            return of_duration(value)
        if type(value) is not datetime or (zone is not None and type(zone) is not str):
            raise refused(name, value)
        if zone is None:
            return of_time(value)
        offset: timezone = times.zone(zone)
        try:
            return of_time(value.astimezone(offset))
        except OverflowError:
            raise EvaluationError("the time is outside of the years 1 to 9999") from None

    return part


# -- numbers -----------------------------------------------------------------------------------------------------------


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Compute:
    def chosen(budget: StepBudget, *values: Any) -> Any:
        candidates = list(values[0]) if len(values) == 1 and isinstance(values[0], list | tuple) else list(values)
        budget.spend(len(candidates))
        if not candidates or any(type(candidate) not in NUMBERS for candidate in candidates):
            raise refused(name, *candidates[:2]) if candidates else EvaluationError(f"{name} of an empty list")
        return choose(candidates)

    return chosen


def _absolute(budget: StepBudget, value: Any) -> Any:
    if type(value) not in NUMBERS:
        raise refused("math.abs", value)
    return integer(abs(value)) if type(value) is int else abs(value)


def _sign(budget: StepBudget, value: Any) -> Any:
    if type(value) not in NUMBERS:
        raise refused("math.sign", value)
    return type(value)((value > 0) - (value < 0))


def _rounded(name: str, change: Callable[[float], float]) -> Compute:
    def changed(budget: StepBudget, value: Any) -> float:
        if type(value) is not float:
            raise refused(name, value)
        return float(change(value))

    return changed


def _away_from_zero(value: float) -> float:
    whole = math.trunc(value)
    return whole + math.copysign(1, value) if abs(value - whole) >= 0.5 else whole


def _tested(name: str, answer: bool) -> Compute:
    """Doubles are always finite here."""

    def tested(budget: StepBudget, value: Any) -> bool:
        if type(value) is not float:
            raise refused(name, value)
        return answer

    return tested


_DATES: Mapping[str, tuple[Callable[[datetime], int], Callable[[timedelta], int] | None]] = {
    "getFullYear": (lambda at: at.year, None),
    "getMonth": (lambda at: at.month - 1, None),
    "getDate": (lambda at: at.day, None),
    "getDayOfMonth": (lambda at: at.day - 1, None),
    "getDayOfWeek": (lambda at: at.isoweekday() % 7, None),
    "getDayOfYear": (lambda at: at.timetuple().tm_yday - 1, None),
    "getHours": (lambda at: at.hour, lambda length: times.whole(length, 3600)),
    "getMinutes": (lambda at: at.minute, lambda length: times.whole(length, 60)),
    "getSeconds": (lambda at: at.second, lambda length: times.whole(length, 1)),
    "getMilliseconds": (lambda at: at.microsecond // 1000, times.milliseconds),
}

FUNCTIONS: dict[str, Form] = {
    "size": Form(_size, (1,), (1,)),
    "contains": Form(_texts("contains", lambda value, part: part in value), (2,)),
    "startsWith": Form(_texts("startsWith", str.startswith), (2,)),
    "endsWith": Form(_texts("endsWith", str.endswith), (2,)),
    "matches": Form(_size, (2,), (2,)),
    "lowerAscii": Form(_cased("lowerAscii", lambda value: value.translate(_LOWER)), (1,)),
    "upperAscii": Form(_cased("upperAscii", lambda value: value.translate(_UPPER)), (1,)),
    "trim": Form(_cased("trim", lambda value: value.strip(_WHITE)), (1,)),
    "split": Form(_split, (2, 3)),
    "join": Form(_join, (1, 2)),
    "substring": Form(_substring, (2, 3)),
    "replace": Form(_replace, (3, 4)),
    "int": Form(_int, (), (1,)),
    "double": Form(_double, (), (1,)),
    "string": Form(_string, (), (1,)),
    "bool": Form(_bool, (), (1,)),
    "timestamp": Form(_timestamp, (), (1,)),
    "duration": Form(_duration, (), (1,)),
    "dyn": Form(lambda budget, value: value, (), (1,)),
    **{name: Form(_part(name, *parts), (1, 2)) for name, parts in _DATES.items()},
    "math.greatest": Form(_extreme("math.greatest", max), unbounded=True),
    "math.least": Form(_extreme("math.least", min), unbounded=True),
    "math.abs": Form(_absolute, (), (1,)),
    "math.sign": Form(_sign, (), (1,)),
    "math.ceil": Form(_rounded("math.ceil", math.ceil), (), (1,)),
    "math.floor": Form(_rounded("math.floor", math.floor), (), (1,)),
    "math.round": Form(_rounded("math.round", _away_from_zero), (), (1,)),
    "math.trunc": Form(_rounded("math.trunc", math.trunc), (), (1,)),
    "math.isNaN": Form(_tested("math.isNaN", False), (), (1,)),
    "math.isInf": Form(_tested("math.isInf", False), (), (1,)),
    "math.isFinite": Form(_tested("math.isFinite", True), (), (1,)),
}
