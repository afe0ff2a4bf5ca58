"""`aggregate.window`: event-time windows, as the file writes them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from sluicegate.streams.agent import OVERLAPPING, Window
from sluicegate.streams.config.sections import late
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.fields import (
    FIELD,
    Duration,
    DurationOrNever,
    DurationOrZero,
    FieldPath,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.sections.late import LateField
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Native, Unknown
from sluicegate.streams.reducers import in_panes
from sluicegate.streams.units import spoken_duration

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models_agent import AgentModel
    from sluicegate.streams.config.sections.models_groups import Aggregate

_CLOSED = ConfigDict(extra="forbid", frozen=True, strict=True)
Kind = Literal["tumbling", "hopping", "session"]
SLACK = 3600.0
"""Seconds that `at_most` is longer than a window and its grace if the file does not say it."""
MANY = 1_000
"""Above so many windows of one record `check` warns."""
WINDOW = "window"
TIMESTAMP = "timestamp"
KINDS: tuple[Kind, ...] = ("tumbling", "hopping", "session")
UNITS = ("s", "ms", "us", "rfc3339")
Unit = Annotated[Literal["s", "ms", "us", "rfc3339"], unless_unknown("rfc3339")]


class TimeModel(BaseModel):
    """The field that holds the time of a record; None: Kafka's timestamp."""

    model_config = _CLOSED
    field: FieldPath | None = Field(
        default=None, description="The field that holds the time of a record.", examples=["created_at"]
    )
    unit: Unit = Field(
        default="rfc3339",
        description="The unit of the field: seconds, milliseconds or microseconds since 1970, or text in RFC 3339.",
        examples=["ms"],
    )


def _as_time(value: object) -> object:
    """`{field: timestamp}` is for a field of this name."""
    if isinstance(value, Unknown) or value == TIMESTAMP:
        return {}
    if isinstance(value, dict):
        if value.get("field") is None:
            raise refused("names no field", "write {field: PATH, unit: ms}, a field path, or timestamp")
        return value
    return {"field": value}


_FIELD_SCHEMA = {"type": "string", "pattern": FIELD}
_TIME_SCHEMA = {
    "anyOf": [
        _FIELD_SCHEMA,
        {
            "type": "object",
            "additionalProperties": False,
            "properties": described(TimeModel, {"field": _FIELD_SCHEMA, "unit": {"enum": [*UNITS]}}),
            "required": ["field"],
        },
    ]
}


def _offset(value: object) -> object:
    if isinstance(value, str) and value.startswith("-"):
        raise refused("is negative", "add the length of a window: with windows of 1d, write 16h in place of -8h")
    return value


Offset = Annotated[DurationOrZero, BeforeValidator(_offset)]
TimeField = Annotated[TimeModel, BeforeValidator(_as_time), WithJsonSchema(_TIME_SCHEMA)]


def _one_kind(schema: dict[str, Any]) -> None:
    schema["oneOf"] = [{"required": [kind]} for kind in KINDS]


class WindowModel(BaseModel):
    """`at_most` None: the default, which depends on the size and on `grace`. A limit is infinite for `never`."""

    model_config = ConfigDict(**_CLOSED, json_schema_extra=_one_kind)
    tumbling: Duration | None = Field(
        default=None, description="The size of a window. Windows do not overlap.", examples=["5m"]
    )
    hopping: Duration | None = Field(
        default=None,
        description="The size of a window. A window begins at each multiple of `every`, so windows overlap.",
        examples=["1h"],
    )
    every: Duration | None = Field(
        default=None,
        description="The time between the starts of two hopping windows. The size is a multiple of it.",
        examples=["5m"],
    )
    session: Duration | None = Field(
        default=None,
        description="The longest time between two records of a window. It ends this long after its last record.",
        examples=["30m"],
    )
    offset: Offset = Field(
        default=0.0,
        description=(
            "Moves the start of all windows. Without it windows start at multiples of the size since 1970 UTC, hopping "
            "windows at multiples of `every`. It is less than these."
        ),
        examples=["1h"],
    )
    time: TimeField = Field(
        default=TimeModel(),
        description="The field that holds the time of a record: a path, or `{field, unit}`. `timestamp` is Kafka's.",
        examples=["created_at"],
        json_schema_extra={"default": TIMESTAMP},
    )
    grace: DurationOrZero = Field(
        default=0.0,
        description="How far the watermark must be past the end of a window before it closes.",
        examples=["30s"],
    )
    idle: DurationOrNever = Field(
        default=60.0,
        description=(
            "The time without records after which the worker's clock closes the windows that are over, or `never`."
        ),
        examples=["1m"],
    )
    at_most: DurationOrNever | None = Field(
        default=None,
        description=(
            "The longest time that a window stays open after its first record (a session: after its last one), or "
            "`never`. Unless it is written, the size, `grace` and one hour."
        ),
        examples=["2h"],
    )
    late: LateField = Field(
        default="dead-letter",
        description=(
            "What happens to a record whose window is closed: `dead-letter`, `skip`, `{new: TIME}` or "
            "`{amend: TIME, every: TIME}`."
        ),
        examples=["skip"],
    )
    max_ahead: Duration = Field(
        default=3600.0,
        description="A record whose time is further ahead of the worker's clock is a dead letter.",
        examples=["1h"],
    )

    @property
    def kinds(self) -> list[str]:
        """The kinds of windows that the file names: one, unless it is wrong."""
        return [kind for kind in KINDS if getattr(self, kind) is not None]

    @property
    def kind(self) -> Kind:
        return next((kind for kind in KINDS if getattr(self, kind) is not None), "tumbling")

    @property
    def size(self) -> float:
        """In seconds; the gap of a session."""
        seconds: float | None = getattr(self, self.kind)
        return seconds or 0.0

    @property
    def step(self) -> float:
        """Seconds between the starts of two windows."""
        return self.size if self.every is None else self.every

    @property
    def least(self) -> float:
        """Seconds from the start of a window, or from the last record of a session, until event time may close it."""
        return self.size + self.grace


WindowField = Annotated[WindowModel, unless_unknown(lambda: WindowModel(tumbling=60.0))]


def built(rule: "Aggregate") -> Window | None:
    window = rule.window
    if window is None:
        return None
    at_most = window.least + SLACK if window.at_most is None else window.at_most
    return Window(
        window.size,
        window.offset,
        window.time.field,
        window.time.unit,
        window.grace,
        or_none(window.idle),
        or_none(at_most),
        max_ahead=window.max_ahead,
        kind=OVERLAPPING if window.kind == "hopping" and not _in_panes(rule, window) else window.kind,
        every=window.every or 0.0,
        **late.built(window.late),
    )


def _in_panes(rule: "Aggregate", window: WindowModel) -> bool:
    ends = rule.count is not None or rule.until is not None
    return in_panes((each.kind for each in rule.compute.values()), ends, isinstance(window.late, late.LateModel))


def or_none(limit: float) -> float | None:
    """None for `never`."""
    return None if limit == float("inf") else limit


def written(window: Window) -> dict[str, Any]:
    """The keys of the file that say the same."""
    return {
        window.word: Native(window.size),
        **({"every": Native(window.every)} if window.overlaps else {}),
        **({} if window.kind == "session" else {"offset": Native(window.offset)}),
        "time": time_written(window),
        "grace": Native(window.grace),
        **limits_written(window),
        "late": late.written(window),
        "max_ahead": Native(window.max_ahead),
    }


def time_written(window: Window) -> object:
    """The value of `time` that says the same."""
    return TIMESTAMP if window.time is None else {"field": window.time, "unit": window.unit}


def limits_written(window: Window) -> dict[str, object]:
    """`idle` and `at_most`."""
    limits = {"idle": window.idle, "at_most": window.at_most}
    return {name: "never" if limit is None else Native(limit) for name, limit in limits.items()}


def findings(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """What an agent with windows cannot have, and limits that contradict each other."""
    rule = agent.aggregate
    if rule is None or rule.window is None or agent.correlate is not None:
        return
    window, at = rule.window, (*path, "aggregate", WINDOW)
    yield from _kinds(window, at)
    yield from _limits(window, at)
    yield from _times(agent, window, at)
    yield from late.findings(agent, rule, path)
    aggregate = (*path, "aggregate")
    left_out = [
        ((*aggregate, "timeout"), rule.timeout is not None, "idle and at_most of the window take its place"),
        ((*aggregate, "on_timeout"), rule.on_timeout != "fire", "a window has no timeout"),
        ((*aggregate, "compute", WINDOW), WINDOW in rule.compute, "the result of a window has a field of this name"),
        ((*path, "scope"), agent.scope == "shared", "a watermark closes windows, and a shared buffer has none"),
        ((*path, "on_change"), agent.on_change == "finish", "open windows cannot finish beside a changed rule yet"),
    ]
    for place, wrong, why in left_out:
        if wrong:
            yield FileFinding(place, f"does not go together with a window: {why}", "leave one out", (place, at))


def _kinds(window: WindowModel, at: Path) -> Iterator[FileFinding]:
    """One kind of windows, and what only some kinds have."""
    places = tuple((*at, kind) for kind in window.kinds)
    if not places:
        yield FileFinding(at, "names no kind of windows", f"write one of {', '.join(KINDS)}", (at,))
    if len(places) > 1:
        what = f"names {' and '.join(window.kinds)}: a window is of one kind"
        yield FileFinding(at, what, "leave one out", places)
    if window.kind == "session" and window.offset:
        needs = ((*at, "offset"), (*at, "session"))
        yield FileFinding(needs[0], "does not go together with session", "leave it out", needs)
    yield from _every(window, at)


def _every(window: WindowModel, at: Path) -> Iterator[FileFinding]:
    """Hopping windows have it, and no others."""
    place, needs = (*at, "every"), ((*at, "every"), (*at, window.kind))
    if window.kind != "hopping":
        if window.every is not None and window.kinds:
            yield FileFinding(
                place, f"does not go together with {window.kind}", "leave it out, or write hopping", needs
            )
    elif window.every is None:
        yield FileFinding((*at, "hopping"), "needs `every`", "write every: 5m, a part of the size", needs[1:])
    elif round(1000 * window.size) % round(1000 * window.every) or window.every == window.size:
        what = "does not divide the size of the window" if window.every != window.size else "is the size of the window"
        hint = "write a time that divides the size" if window.every != window.size else "write less, or tumbling"
        yield FileFinding(place, what, hint, needs)


def _limits(window: WindowModel, at: Path) -> Iterator[FileFinding]:
    never = float("inf")
    needs: tuple[Path, ...] = ((*at, "at_most"), (*at, window.kind), (*at, "grace"))
    if window.at_most is not None and window.at_most < window.least:
        what = f"is below the size and grace of the window, {spoken_duration(window.least)}: it would cut windows short"
        yield FileFinding(needs[0], what, "raise it, or leave it out", needs)
    if window.idle == never and window.at_most == never:
        what = "is never, and so is idle: the last windows of a silent partition would stay open for ever"
        yield FileFinding((*at, "at_most"), what, "give one of the two a time", ((*at, "at_most"), (*at, "idle")))
    if window.kind != "session" and window.kinds and window.offset >= window.step:
        step = "the size of the window" if window.every is None else "`every`"
        needs = ((*at, "offset"), (*at, window.kind if window.every is None else "every"))
        yield FileFinding(needs[0], f"is not below {step}", "write less", needs)


def _times(agent: "AgentModel", window: WindowModel, at: Path) -> Iterator[FileFinding]:
    field, place = window.time.field, (*at, "time")
    if field is None:
        return
    if agent.format == "raw":
        needs = (place, (*at[:2], "format"))
        yield FileFinding(
            place, "needs a field, but raw records have none", "write timestamp, or another format", needs
        )
    if field.partition(".")[0] in (agent.let or {}):
        needs = (place, (*at[:2], "let"))
        yield FileFinding(place, "names a computed field (let)", "name a field of the record", needs)


def warnings(window: Window, at: Path) -> Iterator[FileFinding]:
    """Limits without which a window may stay open for long, and windows that cost much."""
    yield from late.warnings(window, at)
    if window.kind == "hopping" and (many := round(window.size / window.every)) > MANY:
        what = f"makes {many:,} windows of each record, and each window is the sum of up to as many parts"
        yield FileFinding((*at, "every"), what, "write a longer time", ((*at, "every"), (*at, "hopping")))
    if window.idle is None:
        limit = spoken_duration(window.at_most or 0.0)
        since = "last" if window.kind == "session" else "first"
        what = f"is never: in a silent partition a window stays open for {limit} since its {since} record"
        yield FileFinding((*at, "idle"), what, "write a time, such as 1m", ((*at, "idle"),))
    if window.at_most is None:
        what = "is never: a producer whose clock stands still holds its windows open"
        yield FileFinding((*at, "at_most"), what, "write a time, or leave it out", ((*at, "at_most"),))


def meaning(window: Window, letters: str) -> list[str]:
    """When windows close, and what becomes of late records: one sentence each."""
    time = "the record's timestamp" if window.time is None else window.time
    grace = f"{spoken_duration(window.grace)} past" if window.grace else "at or past"
    size, session = spoken_duration(window.size), window.kind == "session"
    every = spoken_duration(window.every)
    ends, silent = [], "all input partitions" if window.origins else "the partition"
    if window.idle is not None:
        ends.append(f"{spoken_duration(window.idle)} after {silent} fell silent and the window with its grace ended")
    if window.at_most is not None:
        since = "last" if session else "first"
        ends.append(f"at the latest {spoken_duration(window.at_most)} after the group's {since} record")
    whose = "a record of its partition is" if not window.origins else "records of all input partitions are"
    past = f"more than {spoken_duration(window.grace)} past" if session and window.grace else "past"
    return [
        f"groups by sessions of {time}: one ends {size} after its last record"
        if session
        else f"groups by windows of {size} of {time}" + (f", one every {every}" if window.every else ""),
        f"closes a window when {whose} {past if session else grace} its end",
        f"closes it by the worker's clock {', or '.join(ends)}",
        late.meaning(window, letters),
    ]
