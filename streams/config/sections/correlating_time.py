"""`correlate.timeout`, and the time of a leg: when a group of a correlation ends without all of its legs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from sluicegate.streams import units
from sluicegate.streams.agent import Aggregation, Window
from sluicegate.streams.config.sections import windows
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import Duration, DurationOrNever, short_form, unless_unknown
from sluicegate.streams.config.sections.windows import SLACK, TIMESTAMP, TimeModel, or_none
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Native
from sluicegate.streams.units import spoken_duration
from sluicegate.streams.windowers import CORRELATION

EVENT = "event"
IDLE = 10.0  # seconds; a group waits at least this long for a leg whose topic is silent
SinceLeg = Annotated[Literal["first", "last"], unless_unknown("first")]
ClockOfLegs = Annotated[Literal["event", "wall"], unless_unknown(EVENT)]


class CorrelationTimeout(FilePart, frozen=True):
    """`at_most` None: the default, which depends on `after`. A limit is infinite for `never`."""

    after: Duration = Field(description="The time within which all legs of a key must come.", examples=["15m"])
    since: SinceLeg = Field(
        default="first",
        description="Whether `after` counts from the earliest or from the latest record of the group.",
        examples=["last"],
    )
    clock: ClockOfLegs = Field(
        default="event",
        description="`event`: the times of the records decide. `wall`: the worker's clock decides when it reads them.",
        examples=["wall"],
    )
    idle: DurationOrNever = Field(
        default=IDLE,
        description="The time without records after which a partition of a leg holds no group open, or `never`.",
        examples=["1m"],
    )
    at_most: DurationOrNever | None = Field(
        default=None,
        description=(
            "The longest time that a group is open, by the worker's clock, or `never`. Unless it is written, `after` "
            "and one hour."
        ),
        examples=["2h"],
    )
    max_ahead: Duration = Field(
        default=3600.0,
        description="A record whose time is further ahead of the worker's clock is a dead letter.",
        examples=["1h"],
    )


_TIMEOUT_SCHEMA = {"anyOf": [{"type": "string", "pattern": units.DURATION}, CorrelationTimeout.model_json_schema()]}
TimeoutField = Annotated[
    CorrelationTimeout,
    short_form("after"),
    unless_unknown(lambda: CorrelationTimeout.model_construct(after=60.0)),
    WithJsonSchema(_TIMEOUT_SCHEMA),
]


def window(timeout: CorrelationTimeout) -> Window | None:
    """The equivalent window; None with the worker's clock."""
    if timeout.clock != EVENT:
        return None
    at_most = timeout.after + SLACK if timeout.at_most is None else timeout.at_most
    return Window(
        timeout.after,
        idle=or_none(timeout.idle),
        at_most=or_none(at_most),
        max_ahead=timeout.max_ahead,
        kind=CORRELATION,
    )


def of_leg(own: Window | None, time: TimeModel) -> Window | None:
    """The values of the window for the agent of a leg, with the leg's own time field."""
    return None if own is None else replace(own, time=time.field, unit=time.unit)


def written(rule: Aggregation) -> object:
    """The equivalent value of the file."""
    span, since = rule.window, rule.correlation.since if rule.correlation is not None else "first"
    if span is None:
        after = rule.since_last if rule.since_first is None else rule.since_first
        since = "last" if rule.since_first is None else "first"
        return {"after": Native(after or 0.0), "since": since, "clock": "wall"}
    return {
        "after": Native(span.size),
        "since": since,
        "clock": EVENT,
        **windows.limits_written(span),
        "max_ahead": Native(span.max_ahead),
    }


def time_written(times: Window | None) -> object:
    """The `time` of a leg."""
    return TIMESTAMP if times is None else windows.time_written(times)


def findings(timeout: CorrelationTimeout, at: Path, times: dict[Path, TimeModel]) -> Iterator[FileFinding]:
    """Keys that contradict each other. `times` are the legs' settings of time."""
    never, event = float("inf"), timeout.clock == EVENT
    if not event:
        for name in ("idle", "at_most", "max_ahead"):
            if name in timeout.model_fields_set:
                needs = ((*at, name), (*at, "clock"))
                yield FileFinding(needs[0], "does not go together with clock: wall", "leave one out", needs)
        for place, time in times.items():
            if time.field is not None:
                needs = (place, (*at, "clock"))
                yield FileFinding(place, "does not go together with clock: wall", "leave one out", needs)
        return
    if timeout.at_most is not None and timeout.at_most < timeout.after:
        what = f"is below after, {spoken_duration(timeout.after)}: legs would be missing that may still come"
        needs = ((*at, "at_most"), (*at, "after"))
        yield FileFinding(needs[0], what, "raise it, or leave it out", needs)
    if timeout.idle == never and timeout.at_most == never:
        what = "is never, and so is idle: a group would wait for a leg of a silent topic for ever"
        yield FileFinding((*at, "at_most"), what, "give one of the two a time", ((*at, "at_most"), (*at, "idle")))


def meaning(rule: Aggregation) -> list[str]:
    """When a group times out, by the time of its records: one sentence each."""
    span = rule.window
    assert span is not None
    assert rule.correlation is not None
    leg = "earliest" if rule.correlation.since == "first" else "latest"
    ends = []
    if span.idle is not None:
        ends.append(
            f"{spoken_duration(span.idle)} after the partitions of all legs fell silent and that time has passed"
        )
    if span.at_most is not None:
        ends.append(f"at the latest {spoken_duration(span.at_most)} after the worker read its first record")
    return [
        f"ends a group without the missing legs {spoken_duration(span.size)} after its {leg} record, by the times of "
        "the records; a group does not end while a record that may complete it waits to be read",
        f"by the worker's clock, ends it {', or '.join(ends)}",
    ]
