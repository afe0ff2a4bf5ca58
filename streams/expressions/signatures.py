"""The functions of expressions: the parameters and the result of each. docs/expressions.md explains them to users."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from sluicegate.streams.expressions.types import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    UNKNOWN,
    ValueKind,
    ValueType,
    common,
    list_of,
)

Kinds = frozenset[str]

_NUMBER: Kinds = frozenset({"integer", "double", "number"})
_INTEGER: Kinds = frozenset({"integer", "number"})  # a number may be an integer
_DOUBLE: Kinds = frozenset({"double", "number"})
_TEXT: Kinds = frozenset({"text"})
_TIME: Kinds = frozenset({"time"})
_LIST: Kinds = frozenset({"list"})
_SIZED: Kinds = frozenset({"text", "list", "map"})


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function. `target` is the kind of the value before the dot; None: the function has no
    target."""

    target: Kinds | None
    arguments: tuple[Kinds, ...]
    gives: ValueType | Callable[[Sequence[ValueType]], ValueType]
    optional: int = 0
    """How many of the last arguments may be left out."""
    repeats: bool = False
    """The last argument may be given any number of times."""

    def takes(self, count: int) -> bool:
        most = count if self.repeats else len(self.arguments)
        return len(self.arguments) - self.optional <= count <= most

    def kinds(self, count: int) -> tuple[Kinds, ...]:
        """The kinds of this many values: of the target, if any, and of the arguments."""
        kinds = (*([self.target] if self.target is not None else []), *self.arguments)
        return (*kinds, *([kinds[-1]] * (count - len(kinds))))[:count]

    def result(self, types: Sequence[ValueType]) -> ValueType:
        """The type of the result; `types` are the types of the target, if any, and of the arguments."""
        return self.gives if isinstance(self.gives, ValueType) else self.gives(types)


def _alone(*arguments: Kinds, gives: ValueType, optional: int = 0) -> Signature:
    return Signature(None, arguments, gives, optional)


def _on(target: Kinds, *arguments: Kinds, gives: ValueType, optional: int = 0) -> Signature:
    return Signature(target, arguments, gives, optional)


def _same(types: Sequence[ValueType]) -> ValueType:
    kind: ValueKind = types[0].kind
    return ValueType(kind) if kind in _NUMBER else NUMBER


def _one_of(types: Sequence[ValueType]) -> ValueType:
    shared = common(type.items if type.kind == "list" else type for type in types)
    return shared if shared.kind in _NUMBER else NUMBER


_DATE = (_on(_TIME, _TEXT, gives=INTEGER, optional=1),)
_CLOCK = (*_DATE, _on(frozenset({"duration"}), gives=INTEGER))
_ASKED = (_on(_TEXT, _TEXT, gives=BOOLEAN),)
_CASED = (_on(_TEXT, gives=TEXT),)
_ROUNDED = (_alone(_DOUBLE, gives=DOUBLE),)
_TESTED = (_alone(_DOUBLE, gives=BOOLEAN),)
_ANY: Kinds = frozenset(get_args(ValueKind))
_CHOSEN = (Signature(None, (_LIST,), _one_of), Signature(None, (_NUMBER, _NUMBER), _one_of, optional=1, repeats=True))

SIGNATURES: dict[str, tuple[Signature, ...]] = {
    "size": (_alone(_SIZED, gives=INTEGER), _on(_SIZED, gives=INTEGER)),
    "contains": _ASKED,
    "startsWith": _ASKED,
    "endsWith": _ASKED,
    "matches": (*_ASKED, _alone(_TEXT, _TEXT, gives=BOOLEAN)),
    "int": (_alone(_NUMBER | _TEXT | _TIME, gives=INTEGER),),
    "double": (_alone(_NUMBER | _TEXT, gives=DOUBLE),),
    "string": (_alone(_NUMBER | _TEXT | _TIME | {"boolean", "duration"}, gives=TEXT),),
    "bool": (_alone(_TEXT | {"boolean"}, gives=BOOLEAN),),
    "timestamp": (_alone(_TEXT | _TIME | _INTEGER, gives=TIME),),
    "duration": (_alone(_TEXT | {"duration"}, gives=DURATION),),
    **{f"get{part}": _DATE for part in ("FullYear", "Month", "Date", "DayOfMonth", "DayOfWeek", "DayOfYear")},
    **{f"get{part}": _CLOCK for part in ("Hours", "Minutes", "Seconds", "Milliseconds")},
    "lowerAscii": _CASED,
    "upperAscii": _CASED,
    "trim": _CASED,
    "split": (_on(_TEXT, _TEXT, _INTEGER, gives=list_of(TEXT), optional=1),),
    "join": (_on(_LIST, _TEXT, gives=TEXT, optional=1),),
    "substring": (_on(_TEXT, _INTEGER, _INTEGER, gives=TEXT, optional=1),),
    "replace": (_on(_TEXT, _TEXT, _TEXT, _INTEGER, gives=TEXT, optional=1),),
    "math.greatest": _CHOSEN,
    "math.least": _CHOSEN,
    "math.abs": (Signature(None, (_NUMBER,), _same),),
    "math.sign": (Signature(None, (_NUMBER,), _same),),
    "math.ceil": _ROUNDED,
    "math.floor": _ROUNDED,
    "math.round": _ROUNDED,
    "math.trunc": _ROUNDED,
    "math.isNaN": _TESTED,
    "math.isInf": _TESTED,
    "math.isFinite": _TESTED,
    "dyn": (_alone(_ANY, gives=UNKNOWN),),
}
"""By name. `has` and `default`, the operators and the macros are not among them: they are part of the language."""


def _kinds_of(kinds: Kinds) -> list[str]:
    """The kinds, without the narrower number kinds where any number will do."""
    return sorted(kinds - {"integer", "double"} if kinds >= _NUMBER else kinds - {"number"})


def kinds_text(kinds: Kinds) -> str:
    """The kinds as a message lists them: `lists, maps or text`."""
    known = [kind if kind == "text" else f"{kind}s" for kind in _kinds_of(kinds)]
    return " or ".join(part for part in (", ".join(known[:-1]), known[-1]) if part)


def single_kind(kinds: Kinds) -> str:
    """The one kind that a value can be converted to; empty: there are several."""
    known = _kinds_of(kinds)
    return known[0] if len(known) == 1 else ""


def is_taken(type_: ValueType, kinds: Kinds) -> bool:
    """Whether a value of the type can be one of the kinds."""
    return type_.kind in kinds or type_.kind == "unknown"


def counts(forms: Sequence[Signature]) -> str:
    """The numbers of arguments that the forms take."""
    least = min(len(form.arguments) - form.optional for form in forms)
    most = max(len(form.arguments) for form in forms)
    if any(form.repeats for form in forms):
        return "at least 1 argument"
    count = str(least) if least == most else f"{least} or {most}"
    return f"{count} argument{'s' if most != 1 else ''}"


def example(function: str) -> str:
    """A call of the function, as an example."""
    form = SIGNATURES[function][0]
    arguments = ", ".join("xyz"[: len(form.arguments) - form.optional])
    return f"{function}({arguments})" if form.target is None else f"value.{function}({arguments})"
