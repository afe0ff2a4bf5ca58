"""The kinds of windows: one entry for each, with all facts that other modules need.

The groups of a kind are a class in streams/windows. It finds the groups of a record, determines their close, and
provides the stage of the compiled loop that finds them. Other rooms use the entry, and do not ask for the kind.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, get_args

CORRELATION = "correlation"
"""The kind of the window of a correlation."""
CALENDAR = {"day": 90_000.0, "week": 608_400.0, "month": 2_682_000.0, "year": 31_626_000.0}
"""The units of a calendar, with the seconds of the longest one: an hour more than 1, 7, 31 or 366 days."""
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)
AMEND = "amend"
"""The `late` of a window whose results are revised."""
MANY = 1_000
"""If a record is in more windows than this, `check` warns."""


DATED = ("calendar", "zone", "week_starts")
"""The fields of Window that define the calendar."""


class WindowNumbers(Protocol):
    """A window as an agent or as the model of the file has it. Durations are in seconds."""

    @property
    def size(self) -> float: ...
    @property
    def every(self) -> float | None: ...


class WindowKey(NamedTuple):
    """A key of the file for a duration that only one kind of windows has. `missing` is the hint for a file without
    it."""

    name: str
    text: str
    example: str
    missing: str = ""


class Remark(NamedTuple):
    """A remark of `check` about the value of a key."""

    key: str
    text: str
    hint: str


Remarks = Callable[[WindowNumbers], Remark | None]


class Windower(NamedTuple):
    """A kind of windows. The first of `keys` has the size, and the others the fields of Window with their names.
    `meaning` is its part of the description of an agent.

    `groups` is the module:class in streams/windows. A group has `slots` additional slots after the slots of its
    reducers. `merged`: groups are merged. `apart` is the kind to use if windows cannot be the sum of shared panes, and
    `calendar` the kind to use if the size is a unit of the calendar.

    `regular`: windows begin at multiples of a time since 1970, plus `offset`. `dated`: they begin with a day of a zone,
    and have further fields of Window, `DATED`. `overlaps`: a record is in several
    windows. `extends`: a record extends its window, which ends `size` after the last record; a record at the end is in
    time. `together`: a limit, `at_most` or an operator ends all windows of a key. `immediate`: each record has its own
    window and result, so no result waits for the end of a window. `pageable`: groups may be rows of the store
    (sluicegate.streams.aggregation.durable.paging).

    `wrong` returns an error about the numbers, `costly` a warning. `untaken` are the actions of `late` that it does not
    support, each with the reason."""

    name: str
    groups: str
    keys: tuple[WindowKey, ...] = ()
    meaning: str = ""
    slots: int = 0
    merged: bool = False
    apart: str = ""
    calendar: str = ""
    regular: bool = False
    dated: bool = False
    overlaps: bool = False
    extends: bool = False
    together: bool = False
    immediate: bool = False
    pageable: bool = False
    wrong: Remarks = lambda window: None
    costly: Remarks = lambda window: None
    untaken: Mapping[str, str] = MappingProxyType({})

    @property
    def word(self) -> str:
        """The key of the file with the size."""
        return self.keys[0].name if self.keys else self.name

    @property
    def placed(self) -> bool:
        """Whether the time of a record and the numbers of the window determine the one window that contains it."""
        return (self.regular or self.dated) and not self.overlaps

    @property
    def finishes(self) -> bool:
        """Whether results wait. Then open windows finish beside a changed rule."""
        return not self.immediate

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of Window, besides its size, that only some kinds have."""
        return (*(key.name for key in self.keys[1:]), *(DATED if self.dated else ()))

    @property
    def independent(self) -> bool:
        """Whether no record affects the windows in which another record counts."""
        return not (self.overlaps or self.extends)


def _dividing(window: WindowNumbers) -> Remark | None:
    every = window.every or window.size
    if every == window.size:
        return Remark("every", "is the size of the window", "write less, or tumbling")
    if round(1000 * window.size) % round(1000 * every):
        return Remark("every", "does not divide the size of the window", "write a time that divides the size")
    return None


def _many(window: WindowNumbers) -> Remark | None:
    many = round(window.size / (window.every or window.size))
    what = f"makes {many:,} windows of each record, and each window is the sum of up to as many parts"
    return Remark("every", what, "write a longer time") if many > MANY else None


_TUMBLING = Windower(
    "tumbling",
    "tumbling_groups:TumblingGroups",
    (
        WindowKey(
            "tumbling",
            "The size of a window, or `day`, `week`, `month` or `year` of a calendar. Windows do not overlap.",
            "5m",
        ),
    ),
    "groups by windows of {size} of {time}",
    calendar="calendar",
    regular=True,
    pageable=True,
)
_CALENDAR = _TUMBLING._replace(
    name="calendar", meaning="groups by windows of a {unit}, by {time}", calendar="", regular=False, dated=True
)
_HOPPING = Windower(
    "hopping",
    "hopping:HoppingGroups",
    (
        WindowKey(
            "hopping", "The size of a window. A window begins at each multiple of `every`, so windows overlap.", "1h"
        ),
        WindowKey(
            "every",
            "The time between the starts of two hopping windows. The size is a multiple of it.",
            "5m",
            missing="write every: 5m, a part of the size",
        ),
    ),
    "groups by windows of {size} of {time}, one every {every}",
    slots=1,
    merged=True,
    apart="overlapping",
    regular=True,
    overlaps=True,
    together=True,
    pageable=True,
    wrong=_dividing,
    costly=_many,
)
_OVERLAPPING = _HOPPING._replace(
    name="overlapping", groups="overlapping:OverlappingGroups", slots=0, merged=False, apart="", together=False
)
_SESSION = Windower(
    "session",
    "sessions:SessionGroups",
    (
        WindowKey(
            "session",
            "The longest time between two records of a window. It ends this long after its last record.",
            "30m",
        ),
    ),
    "groups by sessions of {time}: one ends {size} after its last record",
    slots=2,
    merged=True,
    extends=True,
    pageable=True,
    untaken={
        AMEND: "does not go together with sessions: a late record may join two sessions whose results were sent, and a "
        "revision replaces one result"
    },
)
_CHANGES_MANY = "does not go together with sliding: a late record is in the windows of many results that were sent"
_SLIDING = Windower(
    "sliding",
    "sliding.groups:SlidingGroups",
    (
        WindowKey(
            "sliding", "Each record has a result: of the records of its key in this time before it, with itself.", "5m"
        ),
    ),
    "gives a result at each record: of {which}",
    slots=1,
    merged=True,
    together=True,
    immediate=True,
    untaken={"new": _CHANGES_MANY, AMEND: _CHANGES_MANY},
)
_CORRELATION = Windower(CORRELATION, "correlated:CorrelatedByTime", slots=2, pageable=True)
ENTRIES = (_TUMBLING, _CALENDAR, _HOPPING, _OVERLAPPING, _SESSION, _SLIDING, _CORRELATION)
WINDOWERS = {entry.name: entry for entry in ENTRIES}
WRITTEN = tuple(entry for entry in ENTRIES if entry.keys and entry.word == entry.name)
"""The kinds that can be named in the file."""
