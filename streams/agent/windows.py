"""The windows of groups, and correlations."""

from dataclasses import dataclass
from typing import Literal

from sluicegate.streams.windowers import WINDOWERS, Weekday, Windower


@dataclass(frozen=True, slots=True)
class Window:
    """Windows over the records' own time. Durations are in seconds.

    Tumbling windows begin at multiples of `size` since 1970 UTC, plus `offset`; hopping windows of this size begin at
    multiples of `every`, which divides the size. A session ends `size` after its last record.

    The time of a record is its Kafka timestamp, or the field at the path `time`: a number in `unit`, or RFC 3339 text.
    A window closes when the watermark is `grace` past its end. A record of a closed window is late, and `late` is the
    action. `idle` is the silence after which the owner's clock closes windows, and `at_most` the longest time that a
    group may be open by that clock since its first record, of a session since its last one; None means never. A record
    more than `max_ahead` ahead of that clock is refused.

    With `late` new, late records of a key and a window gather for `gather` seconds of the owner's clock, and make a
    further result. With `late` amend, a window stays for `keep` seconds of event time after its result. Late records
    change it, and the result is sent again, with the next revision, `gather` seconds after the first one of them.

    `origins` are the agents that re-key for the windows, and the topics that they read, as AGENT/TOPIC.

    `kind` is the name of an entry in streams/windowers.py. Hopping windows are kept in panes, the parts that they have
    in common, or with the kind `overlapping` one by one.

    With `calendar`, a window is a day, week, month or year of the time zone `zone`, and `size` is the size of the
    longest one. A week begins with the day `week_starts`.

    A sliding window has at most the `last` records of its key, if that is not 0. A `size` of 0 is no limit for these
    windows.

    The window of a correlation is the time within which its legs must arrive: `size` since the leg that
    `Correlation.since` selects.
    """

    size: float
    offset: float = 0.0
    time: str | None = None
    unit: Literal["s", "ms", "us", "rfc3339"] = "rfc3339"
    grace: float = 0.0
    idle: float | None = 60.0
    at_most: float | None = None
    late: Literal["dead-letter", "skip", "new", "amend"] = "dead-letter"
    max_ahead: float = 3600.0
    origins: tuple[str, ...] = ()
    kind: str = "tumbling"
    every: float = 0.0
    gather: float = 0.0
    keep: float = 0.0
    calendar: Literal["", "day", "week", "month", "year"] = ""
    zone: str = ""
    week_starts: Literal[""] | Weekday = ""
    last: int = 0

    @property
    def extent(self) -> float | str:
        """The text of the file after the name of its kind."""
        return self.calendar or self.size

    @property
    def windower(self) -> Windower:
        """The entry of its kind. The entry of an unknown kind has no keys, and a check refuses its name."""
        return WINDOWERS.get(self.kind) or Windower(self.kind, "")


@dataclass(frozen=True, slots=True)
class Correlation:
    """The groups are correlations: each record is an object with one field, the leg's name, and the leg's message.

    The key of a group that ended is remembered for `remember` seconds, at most `max_keys` keys in each partition. A
    record of such a key is late, and `late` is the action.

    With `Aggregation.window`, the time of the records decides when a group times out: `size` after its earliest record,
    with `since` last after its latest one.
    """

    remember: float = 3600.0
    late: Literal["dead-letter", "skip"] = "dead-letter"
    max_keys: int = 1_000_000
    since: Literal["first", "last"] = "first"
