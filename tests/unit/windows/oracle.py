"""What tumbling windows must decide, record by record, in plain Python: lists and dictionaries, no engine code.

Written from the promises: the watermark is the highest time read, a window closes when the watermark is `grace` past
its end, and only the watermark makes a record late.
"""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple


class Step(NamedTuple):
    """At the owner's time `now`, in seconds, a record with this key and time in ms comes; or, without a key, the owner
    looks at its clock. `left_out`: `where` is false for the record. Over a repartitioned topic the record is of
    `origin`; with a `state` it is a time mark."""

    now: float
    key: bytes | None
    time: int = 0
    amount: int = 0
    left_out: bool = False
    origin: str = ""
    state: str = ""


class Result(NamedTuple):
    key: bytes
    start: int
    end: int
    reason: str
    closed_by: str
    first: int
    last: int
    count: int
    total: int
    revision: int = 1


@dataclass
class Open:
    first: int
    opened: float
    last: int = 0
    amounts: list[int] = field(default_factory=list)


@dataclass
class Oracle:
    """`size`, `offset`, `grace` in ms; `idle`, `at_most`, `ahead` in seconds; `count` completes a part of a window."""

    size: int
    offset: int
    grace: int
    idle: float
    at_most: float
    ahead: float
    count: int
    watermark: int = -1
    seen: float = 0.0
    results: list[Result] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    open: dict[tuple[int, bytes], Open] = field(default_factory=dict)

    def take(self, offset: int, step: Step) -> None:
        assert step.key is not None
        self.seen = step.now
        if step.time > (step.now + self.ahead) * 1000:
            if not step.left_out:
                self.refused.append((offset, "time-ahead"))
            return
        self.passed(step.time)
        if step.left_out:
            return
        start = self.start_of(step.time)
        if self.is_late(offset, step, start):
            return
        group = self.open.setdefault((start, step.key), Open(offset, step.now))
        group.last = offset
        group.amounts.append(step.amount)
        if len(group.amounts) == self.count:
            self.end((start, step.key), "count", "")

    def start_of(self, time: int) -> int:
        return next(s for s in range(self.offset - 5 * self.size, time + 1, self.size) if time < s + self.size)

    def end_of(self, start: int) -> int:
        return start + self.size

    def is_late(self, offset: int, step: Step, start: int) -> bool:
        """Whether the record does not count in the open window that starts there."""
        late = self.end_of(start) + self.grace <= self.watermark
        if late:
            self.refused.append((offset, "late"))
        return late

    def passed(self, time: int) -> None:
        """Event time is at least `time`."""
        if time > self.watermark:
            self.watermark = time
            self.close("event")

    def look(self, now: float) -> None:
        """The owner's clock: windows that are over since `idle` in a silent partition, groups that are too old."""
        over = [self.end_of(start) + self.grace for start, _ in self.open]
        over = [closes for closes in over if closes <= self.silent_until(now)]
        if over:
            self.watermark = max(over)
            self.close("idle")
        for name in [name for name, group in self.open.items() if group.opened + self.at_most <= now]:
            self.end(name, "window", "at_most")

    def silent_until(self, now: float) -> float:
        """Silence closes the windows that close at this watermark or before."""
        return (now - self.idle) * 1000 if now >= self.seen + self.idle else -inf

    def close(self, by: str) -> None:
        for name in sorted(self.open, key=lambda name: (name[0], self.open[name].first)):
            if self.end_of(name[0]) + self.grace <= self.watermark:
                self.end(name, "window", by)

    def end(self, name: tuple[int, bytes], reason: str, by: str) -> None:
        group = self.open.pop(name)
        amounts = group.amounts
        self.results.append(
            Result(
                name[1], name[0], self.end_of(name[0]), reason, by, group.first, group.last, len(amounts), sum(amounts)
            )
        )
