"""`aggregate.window`: event-time windows, as the file writes them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from sluicegate.streams.agent import Aggregation, Window
from sluicegate.streams.config.sections import late
from sluicegate.streams.config.sections.calendar import DatedKeys, Fixed, SizeOrUnit, dated, spoken_unit, zone_and_week
from sluicegate.streams.config.sections.described import described
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    FIELD,
    UNITS,
    Count,
    Duration,
    DurationOrNever,
    DurationOrZero,
    FieldPath,
    Unit,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.sections.late import LateField
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Native, Unknown
from sluicegate.streams.reducers import kept_as
from sluicegate.streams.units import spoken_duration
from sluicegate.streams.windowers import CALENDAR, WINDOWERS, WRITTEN, Remarks, Windower

if TYPE_CHECKING:
    from sluicegate.streams.config.sections.models_agent import AgentModel
    from sluicegate.streams.config.sections.models_groups import Aggregate

SLACK = 3600.0
"""Seconds that `at_most` is longer than a window and its grace if the file does not say it."""
WINDOW = "window"
TIMESTAMP = "timestamp"
LAST = "last"
BEHIND = 60.0
"""Seconds of `grace` of sliding windows without a size if the file does not say it."""
KINDS = tuple(entry.word for entry in WRITTEN)
SLIDING = next(entry.word for entry in WRITTEN if entry.immediate)
OF_KINDS = {key.name: (entry, key) for entry in WRITTEN for key in entry.keys}
"""The keys of the kinds, each with its kind."""


class TimeModel(FilePart, frozen=True):
    """The field that holds the time of a record; None: Kafka's timestamp."""

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
    by_number = {"required": [LAST], "not": {"required": [SLIDING]}}
    schema["oneOf"] = [*({"required": [kind]} for kind in KINDS), by_number]


class KeysOfKinds(DatedKeys, frozen=True):
    """The keys of the kinds of windows, in front of the keys of the class. Each has one entry in
    sluicegate.streams.windowers."""

    if TYPE_CHECKING:
        every: float | None

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        own = dict(cls.__annotations__)
        cls.__annotations__.clear()
        cls.__annotations__.update(dict.fromkeys(OF_KINDS, Fixed | None), **own)
        for name, (entry, key) in OF_KINDS.items():
            if entry.calendar and name == entry.word:
                cls.__annotations__[name] = SizeOrUnit | None
            setattr(cls, name, Field(default=None, description=key.text, examples=[key.example]))


class WindowModel(KeysOfKinds, frozen=True):
    """`at_most` None: the default, which depends on the size and on `grace`. A limit is infinite for `never`."""

    model_config = ConfigDict(json_schema_extra=_one_kind)
    last: Count | None = Field(
        default=None,
        description=(
            "Each record has a result: of the last so many records of its key, with itself. Beside `sliding`: of those "
            "among them that are in its time."
        ),
        examples=[100],
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
        description=(
            "How far the watermark must be past the end of a window before it closes. With `sliding`, how far a record "
            "may be behind the watermark; unless it is written, the size, and with `last` alone one minute."
        ),
        examples=["30s"],
    )
    idle: DurationOrNever = Field(
        default=60.0,
        description=(
            "How long a partition must have no record, and a window must be over with its `grace`, before the worker's "
            "clock closes the window; or `never`."
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
        """The keys of the kinds of windows in the file: exactly one if it is valid."""
        named = [kind for kind in KINDS if getattr(self, kind) is not None]
        return named or ([LAST] if self.last is not None else [])

    @property
    def windower(self) -> Windower:
        entry = next((entry for entry in WRITTEN if entry.word in (*self.kinds, self._alone)), WRITTEN[0])
        return WINDOWERS[entry.calendar] if isinstance(getattr(self, entry.word), str) else entry

    @property
    def _alone(self) -> str:
        """The kind that the key `last` alone means."""
        return SLIDING if self.kinds == [LAST] else ""

    @property
    def word(self) -> str:
        """The key of the kind, as the file writes it."""
        return LAST if self._alone else self.windower.word

    @property
    def kind(self) -> str:
        return self.windower.name

    @property
    def extent(self) -> float | str:
        """Same as in Window."""
        written: float | str | None = getattr(self, self.windower.word)
        return written or 0.0

    @property
    def named(self) -> str:
        """The kind, as the file writes it: `hopping`, `tumbling: day`."""
        return f"{self.windower.word}: {self.extent}" if self.windower.dated else self.word

    @property
    def size(self) -> float:
        """The size in seconds: for a session its gap, for a unit of the calendar its longest length."""
        return CALENDAR[self.extent] if isinstance(self.extent, str) else self.extent

    @property
    def step(self) -> float:
        """Seconds between the starts of two windows."""
        return self.size if self.every is None else self.every

    @property
    def disorder(self) -> float:
        """`grace` in seconds, with its default."""
        own = "grace" in self.model_fields_set or not self.windower.immediate
        return self.grace if own else self.size or BEHIND

    @property
    def least(self) -> float:
        """Seconds from the start of a window, or from the last record of a session, after which event time may close
        it."""
        return self.size + self.disorder


WindowField = Annotated[WindowModel, unless_unknown(lambda: WindowModel.model_validate({"tumbling": Native(60.0)}))]


def built(rule: "Aggregate", emits: bool) -> Window | None:
    """The Window that runs. `emits`: groups have early results."""
    window = rule.window
    if window is None:
        return None
    default = float("inf") if window.windower.immediate else window.least + SLACK
    at_most = default if window.at_most is None else window.at_most
    ends, revised = rule.count is not None or rule.until is not None, isinstance(window.late, late.LateModel)
    return Window(
        window.size,
        window.offset,
        window.time.field,
        window.time.unit,
        window.disorder,
        or_none(window.idle),
        or_none(at_most),
        max_ahead=window.max_ahead,
        kind=kept_as(window.windower, (reducer.kind for reducer in rule.compute.values()), ends, revised or emits),
        every=window.every or 0.0,
        **late.built(window.late),
        **dated(window),
        last=window.last or 0,
    )


def or_none(limit: float) -> float | None:
    """None for `never`."""
    return None if limit == float("inf") else limit


def written(window: Window) -> dict[str, Any]:
    """The equivalent keys of the file."""
    entry = window.windower
    return {
        **({entry.word: Native(window.extent)} if window.extent else {}),
        **{name: getattr(window, name) for name in ("zone", "week_starts", LAST) if getattr(window, name)},
        **{key.name: Native(getattr(window, key.name)) for key in entry.keys[1:]},
        **({"offset": Native(window.offset)} if entry.regular else {}),
        "time": time_written(window),
        "grace": Native(window.grace),
        **limits_written(window),
        "late": late.written(window),
        "max_ahead": Native(window.max_ahead),
    }


def time_written(window: Window) -> object:
    """The equivalent value of `time`."""
    return TIMESTAMP if window.time is None else {"field": window.time, "unit": window.unit}


def limits_written(window: Window) -> dict[str, object]:
    """The values of `idle` and `at_most`, if the windows can have them."""
    waits, origins = not window.windower.immediate, bool(window.origins)
    limits = {"idle": window.idle} if waits or origins else {}
    limits |= {"at_most": window.at_most} if waits else {}
    return {name: "never" if limit is None else Native(limit) for name, limit in limits.items()}


def findings(agent: "AgentModel", path: Path) -> Iterator[FileFinding]:
    """Keys that an agent with windows cannot have, and limits that contradict each other."""
    rule = agent.aggregate
    if rule is None or rule.window is None or agent.correlate is not None:
        return
    window, at = rule.window, (*path, "aggregate", WINDOW)
    yield from _kinds(window, at)
    yield from _limits(window, at)
    yield from _times(agent, window, at)
    yield from late.findings(agent, rule, path)
    yield from _immediate(agent, rule, path)
    aggregate = (*path, "aggregate")
    left_out = [
        ((*aggregate, "timeout"), rule.timeout is not None, "idle and at_most of the window take its place"),
        ((*aggregate, "on_timeout"), rule.on_timeout != "fire", "a window has no timeout"),
        ((*aggregate, "compute", WINDOW), WINDOW in rule.compute, "the result of a window has a field of this name"),
        ((*path, "scope"), agent.scope == "shared", "a watermark closes windows, and a shared buffer has none"),
    ]
    for place, wrong, why in left_out:
        if wrong:
            yield FileFinding(place, f"does not go together with a window: {why}", "leave one out", (place, at))


def _immediate(agent: "AgentModel", rule: "Aggregate", path: Path) -> Iterator[FileFinding]:
    """Keys that contradict a result at each record."""
    window, aggregate = rule.window, (*path, "aggregate")
    if window is None or not window.windower.immediate:
        return
    at = (*aggregate, WINDOW, window.word)
    ends = "each record has the result of its own window, and no record ends those of others"
    silence = "no result waits for silence; with repartition it says when an input partition lets the watermark go"
    full = "each result is of its whole window, so no record leaves early; dead-letter and stop do"
    most = rule.max_items or Aggregation().max_items
    if (window.last or 0) >= most:
        what = f"is not below max_items, {most:,}: no window would have so many records"
        yield FileFinding((*at[:-1], LAST), what, "write less, or raise max_items", ((*at[:-1], LAST), aggregate))
    for place, wrong, why in (
        ((*aggregate, "count"), rule.count is not None, ends),
        ((*aggregate, "until"), rule.until is not None, ends),
        ((*path, "emit"), agent.emit is not None, "no result is early: each record has one already"),
        ((*at[:-1], "at_most"), window.at_most is not None, "no result waits, so there is no time to limit"),
        ((*at[:-1], "idle"), "idle" in window.model_fields_set and not agent.repartition, silence),
        ((*path, "on_change"), agent.on_change == "finish", "no result waits, so no window finishes"),
        ((*aggregate, "on_full"), late.on_full(rule) == "fire-oldest", full),
    ):
        if wrong:
            yield FileFinding(place, f"does not go together with {at[-1]}: {why}", "leave one out", (place, at))


def _kinds(window: WindowModel, at: Path) -> Iterator[FileFinding]:
    """Problems of kinds: there must be one, and some keys belong to one kind only."""
    places = tuple((*at, kind) for kind in window.kinds)
    if not places:
        yield FileFinding(at, "names no kind of windows", f"write one of {', '.join((*KINDS, LAST))}", (at,))
    if len(places) > 1:
        what = f"names {' and '.join(window.kinds)}: a window is of one kind"
        yield FileFinding(at, what, "leave one out", places)
    entry = window.windower
    if not entry.regular and window.offset:
        needs, why, hint = ((*at, "offset"), (*at, window.word)), "records decide when a window begins", "leave it out"
        if entry.dated:
            why = "each window begins at midnight of its `zone`"
            hint = "leave it out, or write a duration, such as tumbling: 1d, whose windows an offset shifts"
        yield FileFinding(needs[0], f"does not go together with {window.named}: {why}", hint, needs)
    if places:
        yield from zone_and_week(window, at)
        yield from _keys(window, at)


def _keys(window: WindowModel, at: Path) -> Iterator[FileFinding]:
    """Keys of another kind, missing keys of this kind, and their invalid values."""
    own, word = window.windower.keys, (*at, window.word)
    for name, (entry, key) in OF_KINDS.items():
        if name not in KINDS and key not in own and getattr(window, name) is not None:
            what, hint = f"does not go together with {window.named}", f"leave it out, or write {entry.word}"
            yield FileFinding((*at, name), what, hint, ((*at, name), word))
    if window.last is not None and not window.windower.immediate:
        what, hint = f"does not go together with {window.named}", f"leave it out, or write {SLIDING}"
        yield FileFinding((*at, LAST), what, hint, ((*at, LAST), word))
    missing = [key for key in own if getattr(window, key.name) is None and window.word != LAST]
    for key in missing:
        yield FileFinding(word, f"needs `{key.name}`", key.missing, (word,))
    if not missing:
        yield from _remarked(window, window.windower.wrong, at)


def _remarked(window: "WindowModel | Window", remarks: Remarks, at: Path) -> Iterator[FileFinding]:
    if (remark := remarks(window)) is not None:
        place = (*at, remark.key)
        yield FileFinding(place, remark.text, remark.hint, (place, (*at, window.windower.word)))


def _limits(window: WindowModel, at: Path) -> Iterator[FileFinding]:
    never = float("inf")
    needs: tuple[Path, ...] = ((*at, "at_most"), (*at, window.word), (*at, "grace"))
    if window.at_most is not None and window.at_most < window.least:
        what = f"is below the size and grace of the window, {spoken_duration(window.least)}: it would cut windows short"
        yield FileFinding(needs[0], what, "raise it, or leave it out", needs)
    if window.idle == never and window.at_most == never and not window.windower.immediate:
        what = "is never, and so is idle: the last windows of a silent partition would stay open for ever"
        yield FileFinding((*at, "at_most"), what, "give one of the two a time", ((*at, "at_most"), (*at, "idle")))
    if window.windower.regular and window.kinds and window.offset >= window.step:
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
    """Missing limits that let a window stay open for long, and windows that are expensive."""
    yield from late.warnings(window, at)
    yield from _remarked(window, window.windower.costly, at)
    if window.windower.immediate:
        return
    if window.idle is None:
        limit = spoken_duration(window.at_most or 0.0)
        since = "last" if window.windower.extends else "first"
        what = f"is never: in a silent partition a window stays open for {limit} since its {since} record"
        yield FileFinding((*at, "idle"), what, "write a time, such as 1m", ((*at, "idle"),))
    if window.at_most is None:
        what = "is never: a producer whose clock stands still holds its windows open"
        yield FileFinding((*at, "at_most"), what, "write a time, or leave it out", ((*at, "at_most"),))


def meaning(window: Window, letters: str) -> list[str]:
    """When windows close, and the treatment of late records: one sentence each."""
    if window.windower.immediate:
        return _meaning_at_once(window, letters)
    time = "the record's timestamp" if window.time is None else window.time
    grace = f"{spoken_duration(window.grace)} past" if window.grace else "at or past"
    size, entry = spoken_duration(window.size), window.windower
    ends, silent = [], "all input partitions" if window.origins else "the partition"
    if window.idle is not None:
        ends.append(f"{spoken_duration(window.idle)} after {silent} fell silent and the window with its grace ended")
    if window.at_most is not None:
        since = "last" if entry.extends else "first"
        ends.append(f"at the latest {spoken_duration(window.at_most)} after the group's {since} record")
    whose = "a record of its partition is" if not window.origins else "records of all input partitions are"
    past = f"more than {spoken_duration(window.grace)} past" if entry.extends and window.grace else "past"
    return [
        entry.meaning.format(size=size, time=time, every=spoken_duration(window.every), unit=spoken_unit(window)),
        f"closes a window when {whose} {past if entry.extends else grace} its end",
        f"closes it by the worker's clock {', or '.join(ends)}",
        late.meaning(window, letters),
    ]


def _meaning_at_once(window: Window, letters: str) -> list[str]:
    """Same as `meaning`, for windows that give a result at each record."""
    time = "the record's timestamp" if window.time is None else window.time
    grace, last = spoken_duration(window.grace), f"the last {window.last:,}"
    dead = "is only counted" if window.late == "skip" else f"goes to {letters} with the reason late"
    behind = f"more than {grace} behind" if window.grace else "behind"
    whose = "the highest time of its partition" if not window.origins else "the least time of all input partitions"
    of_size = f"in the last {spoken_duration(window.size)} of {time}"
    which = f"the records of its key {of_size}"
    stays = f"keeps each record until the highest time is {spoken_duration(window.size + window.grace)} past its own"
    if window.last:
        which = f"{last} records of its key {of_size if window.size else f'by {time}'}"
        stays = f"keeps {last} records of each key, and those that are at most {grace} behind the highest time"
        stays += f", for {spoken_duration(window.size + window.grace)}" if window.size else ""
    return [window.windower.meaning.format(which=which), stays, f"a record that is {behind} {whose} {dead}"]
