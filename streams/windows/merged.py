"""The event clock of a partition whose records come from several origins: the watermark is the minimum of their
times."""

from collections.abc import Collection, Mapping
from math import inf

from sluicegate.streams.aggregation.durable.entry import OriginState
from sluicegate.streams.windows.clock import NEVER, EventClock
from sluicegate.streams.windows.marks import BEHIND, Stamp

UNKNOWN, AT_END, IDLE = "unknown", "at-end", "idle"
MOST_BEAT = 10.0  # seconds
FRESH = 3  # beats for which a mark with the state idle is valid


def beat(idle: float | None) -> float:
    """The interval, in seconds, after which an origin at its end repeats its mark."""
    return MOST_BEAT if idle is None else min(MOST_BEAT, max(1.0, idle / 2))


class MergedClock(EventClock):
    """An origin without a mark stops the watermark. An idle origin lets it advance to the time of its last mark, as
    long as its worker repeats the mark: a worker that is down writes no marks. The age of a mark is its distance from
    the newest mark of any origin, so the watermark is a function of the log.

    `origins` has, by name, the highest time, the state, and the time of the last mark, in milliseconds. `reading` is
    the origin of the current record.
    """

    __slots__ = ("_ended", "_fresh", "_quiet", "_topics", "_unsaved", "origins", "reading")

    def __init__(self, source: str, idle: float | None) -> None:
        super().__init__(source)
        self.origins: dict[str, OriginState] = {}
        self.reading = ""
        self._fresh = round(1000 * FRESH * beat(idle))
        self._unsaved: set[str] = set()
        self._ended: dict[str, int] = {}  # by name: the time of the last mark under this claim that was not behind
        self._quiet = False
        self._topics: Collection[str] | None = None  # AGENT/TOPIC of each origin; None: any

    def expect(self, names: Collection[str], topics: Collection[str]) -> None:
        """Begin a claim: a mark of each of these origins is needed. All other origins are removed. Records that wait do
        not add a removed origin again, unless it is a partition of `topics` (AGENT/TOPIC), which may have been added
        since."""
        self._topics = topics
        for name in [name for name in self.origins if name not in names]:
            del self.origins[name]
        for name in names:
            if name not in self.origins:
                self._note(name, (NEVER, UNKNOWN, 0))
        self._ended.clear()

    def follow(self, earlier: EventClock) -> None:
        super().follow(earlier)
        if isinstance(earlier, MergedClock) and earlier.source == self.source:
            self.restore_origins(earlier.origins)
            self._unsaved.update(earlier.origins)

    def read(self, time: int) -> bool:
        """As in EventClock, for a record of the origin `reading`. The origin is then no longer idle."""
        known, state, written = self.origins.get(self.reading, (NEVER, UNKNOWN, 0))
        woken = state in (UNKNOWN, IDLE)
        if (time <= known and not woken) or self._gone(self.reading):
            return False
        self._note(self.reading, (max(known, time), BEHIND if woken else state, written))
        return self._advanced() if woken or known <= self.watermark else False  # else another origin is the minimum

    def reach(self) -> int:
        times = (max(time, written) for time, _, written in self.origins.values())
        return max(self.watermark, *times, NEVER)

    def stays_below(self, bound: int, origin: str, time: int) -> bool:
        """Whether the watermark surely stays below `bound` if a record of this origin and time is read."""
        return bound > 0 and self.awake(origin) and (time < bound or self.origins[origin][0] > self.watermark)

    def awake(self, origin: str) -> bool:
        """Whether the origin already holds the watermark back. If not, a record of it can move the watermark beyond the
        time of the record."""
        return origin in self.origins and self.origins[origin][1] not in (UNKNOWN, IDLE)

    def hear(self, stamp: Stamp) -> bool:
        """Process a time mark. Returns True if it moves the watermark."""
        if self._gone(stamp.origin):
            return False
        known = self.origins.get(stamp.origin, (NEVER, UNKNOWN, 0))
        self._note(stamp.origin, (max(known[0], stamp.time), stamp.state, stamp.marked_at))
        if stamp.state != BEHIND:
            self._ended[stamp.origin] = stamp.marked_at
        return self._advanced()

    def _gone(self, origin: str) -> bool:
        """Whether the origin belongs to a topic that the agent no longer reads."""
        return self._topics is not None and origin.rpartition("/")[0] not in self._topics

    def _note(self, name: str, state: OriginState) -> None:
        self.origins[name] = state
        self._unsaved.add(name)
        self.changed = True

    def _advanced(self) -> bool:
        least = min(self._limits().values(), default=NEVER)
        if least <= self.watermark:
            return False
        self.watermark = least
        return True

    def look(self, now: float) -> None:
        """Note whether every origin is idle at the owner's time `now`."""
        clock = 1000 * now
        self._quiet = all(
            state == IDLE and abs(clock - written) <= self._fresh for _, state, written in self.origins.values()
        )

    def quiet_from(self, idle: float, closes: float) -> float:
        """As in EventClock. The origins have already waited for the silence, so there is no further delay."""
        return -inf if self._quiet and closes <= self.silent_until() else inf

    def silent_until(self) -> float:
        """As in EventClock. A mark makes no statement about the time after it was written."""
        return min((written for _, _, written in self.origins.values()), default=-inf)

    def ended_since(self, claimed: float) -> bool:
        """As in EventClock: every origin has reported its end since the claim."""
        return all(self._ended.get(name, -1) >= 1000 * claimed for name in self.origins)

    def held_back_by(self) -> dict[str, OriginState]:
        """The origins that hold the watermark where it is."""
        limits = self._limits()
        least = min(limits.values(), default=NEVER)
        return {name: self.origins[name] for name, limit in sorted(limits.items()) if limit == least}

    def _limits(self) -> dict[str, int]:
        """The highest watermark that each origin allows. Empty if all origins are idle: then silence decides. The
        newest mark is the newest among the last marks of all origins, because a clock that goes back makes marks older,
        and the changelog entry stores only the last ones."""
        newest, limits, active = max((written for _, _, written in self.origins.values()), default=0), {}, False
        for name, (time, state, written) in self.origins.items():
            idle = state == IDLE and newest - written <= self._fresh
            limits[name] = max(time, written) if idle else time
            active = active or not idle
        return limits if active else {}

    def unsaved(self, whole: bool) -> dict[str, OriginState]:
        names, self._unsaved = self._unsaved, set()
        return (
            dict(self.origins)
            if whole
            else {name: self.origins[name] for name in sorted(names) if name in self.origins}
        )

    def restore_origins(self, origins: Mapping[str, OriginState]) -> None:
        self.origins.update(origins)
