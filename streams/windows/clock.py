"""The event clock of a partition: its watermark, and the cause of its last move."""

from math import inf

from sluicegate.streams.aggregation.durable.entry import ClockState

NEVER = -1
"""The watermark of a partition from which no time was read. The times of records are 0 or greater."""


class EventClock:
    """Times are in milliseconds since 1970.

    `watermark` is the highest event time that was read, or a later time to which silence moved it. It never goes back.
    The last silence moved it from `silent_from` to `silent_to`, before the record at `silent_at`. `seen` is the owner's
    time, in seconds, of the last record. `changed`: the next changelog entry must store the clock. `source` names where
    the records have their times: a watermark of another source is not restored.
    """

    __slots__ = ("changed", "seen", "silent_at", "silent_from", "silent_to", "source", "watermark")

    def __init__(self, source: str = "") -> None:
        self.source = source
        self.watermark = self.silent_from = self.silent_to = self.silent_at = NEVER
        self.seen = 0.0
        self.changed = False

    def read(self, time: int) -> bool:
        """A record has this time. Returns True if it moves the watermark."""
        if time <= self.watermark:
            return False
        self.watermark = time
        self.changed = True
        return True

    def reach(self) -> int:
        """Records move the watermark no further than to the maximum of this time and of their own times."""
        return self.watermark

    def saw(self, now: float) -> None:
        """Note that records arrived at the owner's time `now`."""
        self.seen = now
        self.changed = True

    def quiet_from(self, idle: float, closes: float) -> float:
        """The owner's time from which on silence may close a window that closes at the watermark `closes`."""
        return idle + self.seen

    def silent_until(self) -> float:
        """The highest watermark to which silence may move this one."""
        return inf

    def ended_since(self, claimed: float) -> bool:
        """Whether every source of this partition was read to its end after this time of the owner."""
        return True

    def look(self, now: float) -> None:
        """Update the clock for the owner's time `now`, before windows may close."""

    def silent(self, to: int, at: int) -> None:
        """Move the watermark to `to`, because the partition is silent before the record at offset `at`, and the windows
        that close at `to` or before are over in real time."""
        if to > self.watermark:
            self.silent_from, self.silent_to, self.silent_at = self.watermark, to, at
            self.watermark = to
            self.changed = True

    def closed_by(self, closes: int) -> str:
        """The cause that closed a window which closes at this watermark: event or idle.

        Silence begins only when no closed window waits for its result, so only the last silence can be the cause.
        """
        return "idle" if self.silent_from < closes <= self.silent_to else "event"

    def lag(self, now: float) -> float | None:
        """How many seconds the watermark is behind the owner's time; None before the first record."""
        return None if self.watermark == NEVER else now - self.watermark / 1000

    def follow(self, earlier: "EventClock") -> None:
        """Adopt the watermark of an earlier rule, if it has the same source."""
        if earlier.source == self.source and earlier.watermark > self.watermark:
            self.restore(earlier.state())
            self.changed = True

    def unsaved_state(self, whole: bool) -> ClockState | None:
        """The state for the next changelog entry, if it changed since the last one or `whole` is set."""
        if not self.changed and not whole:
            return None
        self.changed = False
        return self.state()

    def state(self) -> ClockState:
        return self.watermark, self.silent_from, self.silent_to, self.silent_at, self.seen, self.source

    def restore(self, state: ClockState) -> None:
        if state[-1] == self.source:
            self.watermark, self.silent_from, self.silent_to, self.silent_at, self.seen, _ = state
            self.changed = False
