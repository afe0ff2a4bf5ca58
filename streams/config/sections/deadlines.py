"""`aggregate.timeout` as the file writes it: times since a record, and a deadline from the data."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from sluicegate.streams import agent as run
from sluicegate.streams import units
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    LONGEST_EXPRESSION,
    Duration,
    Expression,
    Unit,
    refused,
    short_form,
    unless_unknown,
)
from sluicegate.streams.config.text.scalars import Native
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import path_of
from sluicegate.streams.expressions.types import NUMBERS, ValueType

Since = Annotated[Literal["first", "last"], unless_unknown("first")]
_DURATION, _EXPRESSION = "duration", "expression"
_ISO_8601 = r"P(?=[0-9T])T?([0-9.]+[YMWDHS]T?)+"
_LIKE_A_DURATION = re.compile(rf"\s*-?[0-9.]+\s*[a-zA-Zµ]*(\s*[0-9.]+\s*[a-zA-Zµ]+)*\s*|\s*{_ISO_8601}\s*")
_FORMS = "write {after: 30s, since: first}, or {first: 30s, last: 5s}"


def _form(value: object) -> str:
    """The form of a value. Text that begins like a duration is a duration, or a mistake in one."""
    return _EXPRESSION if isinstance(value, str) and not _LIKE_A_DURATION.fullmatch(value) else _DURATION


TimeAfter = Annotated[
    Annotated[Duration, Tag(_DURATION)] | Annotated[Expression, Tag(_EXPRESSION)],
    Discriminator(_form),
    unless_unknown(1.0),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": units.DURATION},
                {"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION},
            ]
        }
    ),
]


class TimeoutModel(FilePart, frozen=True):
    """`{after, since}`, or `{first, last}` with either or both; a deadline from the data beside `first` and `last`."""

    after: TimeAfter | None = Field(
        default=None,
        description="The time after which the group is complete: a duration, or an expression that computes one from "
        "the record.",
        examples=["30s", "sla"],
    )
    since: Since | None = Field(
        default=None,
        description="Whether `after` counts from the first record of the group, or from the last one; with an "
        "expression, from the last one that gives a time.",
        examples=["last"],
    )
    at: Expression | None = Field(
        default=None,
        description="A field or an expression: the instant at which the group is complete. The last record that gives "
        "one wins.",
        examples=["due_at"],
    )
    unit: Unit = Field(
        default="rfc3339",
        description="What a number means that `at` or an expression under `after` gives: seconds, milliseconds or "
        "microseconds, for `at` since 1970. With `rfc3339` it is text.",
        examples=["ms"],
    )
    cancel: Expression | None = Field(
        default=None,
        description="An expression. A record for which it is true takes the deadline away that a record gave.",
        examples=["due_at == null"],
    )
    first: Duration | None = Field(default=None, description="The time since the first record.", examples=["30s"])
    last: Duration | None = Field(default=None, description="The time since the last record.", examples=["5s"])

    @property
    def from_data(self) -> bool:
        """Whether the deadline comes from the data."""
        return self.at is not None or isinstance(self.after, str)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        both = self.first is not None or self.last is not None
        if self.at is not None and self.after is not None:
            raise refused("has both at and after", "leave one out: `at` is an instant, `after` a time since a record")
        if self.at is not None and self.since is not None:
            raise refused("has both at and since: an instant counts from no record", "leave since out")
        if not self.from_data:
            for key in ("cancel", "unit"):
                if key in self.model_fields_set:
                    hint = "write at: FIELD or after: EXPRESSION, or leave it out"
                    raise refused(f"has {key}, but no record gives the deadline", hint)
            if (self.after is None) != both or (both and self.since is not None):
                raise refused("mixes the forms of a timeout", _FORMS)
        return self


def _as_timeout(value: object) -> object:
    """The short form is the time since the first record."""
    if isinstance(value, str) and _form(value) == _EXPRESSION and units.duration(value) is None:
        raise refused("is not a duration", "write 30s, or {at: FIELD} for a deadline that stands in the record")
    return value if isinstance(value, dict) else {"after": value}


_TIMEOUT_SCHEMA = {"anyOf": [{"type": "string", "pattern": units.DURATION}, TimeoutModel.model_json_schema()]}
GroupTimeoutField = Annotated[
    TimeoutModel,
    BeforeValidator(_as_timeout),
    unless_unknown(lambda: TimeoutModel.model_construct(after=1.0)),
    WithJsonSchema(_TIMEOUT_SCHEMA),
]


class DebounceModel(FilePart, frozen=True):
    """`period` without a record, and `at_most` after the first one."""

    period: Duration = Field(
        description="The time since the last record after which the group is complete.", examples=["10s"]
    )
    at_most: Duration | None = Field(
        default=None,
        description="The time since the first record after which the group is complete, although records come.",
        examples=["1m"],
    )


_DEBOUNCE_SCHEMA = {"anyOf": [{"type": "string", "pattern": units.DURATION}, DebounceModel.model_json_schema()]}
DebounceField = Annotated[
    DebounceModel,
    short_form("period"),
    unless_unknown(lambda: DebounceModel.model_construct(period=1.0, at_most=None)),
    WithJsonSchema(_DEBOUNCE_SCHEMA),
]


def built(timeout: TimeoutModel | None) -> dict[str, Any]:
    """The values of the aggregation."""
    if timeout is None:
        return {}
    if timeout.from_data or timeout.after is None:
        return {"since_first": timeout.first, "since_last": timeout.last, "deadline": _deadline(timeout)}
    return {"since_last" if timeout.since == "last" else "since_first": timeout.after}


def _deadline(timeout: TimeoutModel) -> run.DataDeadline | None:
    if not timeout.from_data:
        return None
    after = timeout.after if isinstance(timeout.after, str) else ""
    return run.DataDeadline(timeout.at or "", after, timeout.since or "first", timeout.unit, timeout.cancel or "")


def written(rule: run.Aggregation) -> dict[str, object] | None:
    """The equivalent value of the file."""
    times = {"first": rule.since_first, "last": rule.since_last}
    keys: dict[str, object] = {name: Native(time) for name, time in times.items() if time is not None}
    return keys | expressions(rule.deadline) or None


def expressions(deadline: run.DataDeadline | None) -> dict[str, object]:
    """The keys of a deadline from the data that differ from their defaults."""
    if deadline is None:
        return {}
    keys: dict[str, object] = {deadline.name: deadline.at or deadline.after}
    keys |= {} if deadline.since == "first" else {"since": deadline.since}
    keys |= {} if deadline.unit == "rfc3339" else {"unit": deadline.unit}
    return keys | ({"cancel": deadline.cancel} if deadline.cancel else {})


def wrong_type(key: str, unit: str, type_: ValueType) -> tuple[str, str] | None:
    """The reason why an expression of this type gives no deadline, and a remedy; None: it may."""
    own = "time" if key == "at" else "duration"
    what = "an instant" if key == "at" else "a time"
    if type_.kind in (own, "unknown", "null"):
        return None
    if unit == "rfc3339" and type_.kind == "text":
        return None
    if type_.kind in NUMBERS:
        return (f"gives {type_} and no {own}", "write unit: s, ms or us") if unit == "rfc3339" else None
    form = "text in RFC 3339" if key == "at" else 'text such as "1h30m"'
    wanted = form if unit == "rfc3339" else f"a number of unit: {unit}"
    return f"gives {type_}, which is not {what}", f"let it give a {own}, or {wanted}"


def meaning(deadline: run.DataDeadline) -> str:
    """`at due_at of the newest record that has it`"""
    cancel = f"; a record for which {deadline.cancel} takes it away" if deadline.cancel else ""
    if deadline.at:
        return f"at {_named(deadline.at)} of the newest record that has it{cancel}"
    since = "that record" if deadline.since == "last" else "the first record"
    return f"{_named(deadline.after)}, of the newest record that has it, after {since}{cancel}"


def _named(text: str) -> str:
    return text if path_of(parse(text)) is not None else f"({text})"


def texts(timeout: TimeoutModel | None) -> Iterator[tuple[str, str]]:
    """The expressions by their keys."""
    if timeout is not None:
        named = {"at": timeout.at, "after": timeout.after, "cancel": timeout.cancel}
        yield from ((key, text) for key, text in named.items() if isinstance(text, str))
