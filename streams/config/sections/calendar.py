"""Windows of a calendar, as the file writes them: a unit in place of a size, with `zone` and `week_starts`."""

from collections.abc import Iterator
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from sluicegate.streams import units, zones
from sluicegate.streams.agent import Window
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import Duration, Text, any_of, duration_or, refused, unless_unknown
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.windowers import CALENDAR, WEEKDAYS, Weekday, Windower

UTC = "UTC"
WEEK = "week"
_UNITS = any_of(tuple(CALENDAR))
SizeOrUnit = Annotated[
    float | str,
    unless_unknown(1.0),
    duration_or(tuple(CALENDAR)),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": units.DURATION}, {"enum": [*CALENDAR]}]}),
]


def _fixed(value: object) -> object:
    if isinstance(value, str) and value in CALENDAR:
        raise refused("is a unit of the calendar, which only tumbling windows have", "write a duration, such as 1d")
    return value


Fixed = Annotated[Duration, BeforeValidator(_fixed)]
"""The size of windows of a fixed length."""


def _zone(value: str) -> str:
    if not zones.known(value):
        raise refused("is not a time zone that this machine knows", zones.hint(value))
    return value


def _named(value: object) -> object:
    if value is None:
        raise refused("is empty", "write a name such as Europe/Vienna, or leave it out for UTC")
    return value


ZoneField = Annotated[Text, AfterValidator(_zone), unless_unknown(UTC)]
WeekdayField = Annotated[Weekday, unless_unknown(WEEKDAYS[0])]


class DatedKeys(FilePart, frozen=True):
    """The keys that belong to a unit of the calendar."""

    zone: Annotated[ZoneField | None, BeforeValidator(_named)] = Field(
        default=None,
        description=(
            "The time zone of windows with `tumbling: day`, `week`, `month` or `year`: its days begin at midnight "
            "there, so some have 23 or 25 hours. Unless it is written, UTC."
        ),
        examples=["Europe/Vienna"],
    )
    week_starts: WeekdayField | None = Field(
        default=None,
        description="The first day of a week with `tumbling: week`. Unless it is written, monday.",
        examples=["sunday"],
    )


class WrittenWindow(Protocol):
    """The window of the file."""

    @property
    def zone(self) -> str | None: ...
    @property
    def week_starts(self) -> str | None: ...
    @property
    def extent(self) -> float | str: ...
    @property
    def named(self) -> str: ...
    @property
    def word(self) -> str: ...
    @property
    def windower(self) -> Windower: ...


def dated(window: WrittenWindow) -> dict[str, Any]:
    """The calendar fields of Window."""
    if not isinstance(window.extent, str):
        return {}
    week = (window.week_starts or WEEKDAYS[0]) if window.extent == WEEK else ""
    return {"calendar": window.extent, "zone": window.zone or UTC, "week_starts": week}


def zone_and_week(window: WrittenWindow, at: Path) -> Iterator[FileFinding]:
    """Keys of the calendar that have no effect with this size of windows."""
    extent, word = window.extent, window.word
    sized = window.named if window.windower.dated else f"{word} of one length, which no zone changes"
    for name, wrong, which in (("zone", not isinstance(extent, str), _UNITS), ("week_starts", extent != WEEK, WEEK)):
        if wrong and getattr(window, name) is not None:
            place = (*at, name)
            hint = f"leave it out, or write tumbling: {which}"
            yield FileFinding(place, f"does not go together with {sized}", hint, (place, (*at, word)))


def spoken_unit(window: Window) -> str:
    """`day in Europe/Vienna`, `week in UTC from monday on`; empty for other windows."""
    begins = f" from {window.week_starts} on" if window.week_starts else ""
    return f"{window.calendar} in {window.zone}{begins}" if window.calendar else ""
