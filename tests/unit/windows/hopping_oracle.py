"""What hopping windows must decide, record by record, in plain Python: lists and dictionaries, no engine code.

Each record has the set of its windows that have not fired. There are no panes, but where a limit or the owner's clock
asks for the records of one part of a window.
"""

from dataclasses import dataclass, field

from tests.unit.windows.oracle import Step
from tests.unit.windows.session_oracle import SessionResult, values_of


@dataclass
class Taken:
    offset: int
    time: int
    amount: int
    now: float
    windows: set[int]


@dataclass
class HoppingOracle:
    """`size`, `every`, `offset`, `grace` in ms; `idle`, `at_most`, `ahead` in seconds; `most` records fill a part of
    `every`."""

    size: int
    every: int
    offset: int
    grace: int
    idle: float
    at_most: float
    ahead: float
    most: int
    watermark: int = -1
    seen: float = 0.0
    partly: int = 0
    results: list[SessionResult] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    taken: dict[bytes, list[Taken]] = field(default_factory=dict)

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
        every = range(self.offset - 20 * self.size, step.time + 1, self.every)
        windows = {start for start in every if step.time < start + self.size}
        unclosed = {start for start in windows if start + self.size + self.grace > self.watermark}
        if not unclosed:
            self.refused.append((offset, "late"))
            return
        self.partly += unclosed != windows
        records = self.taken.setdefault(step.key, [])
        records.append(Taken(offset, step.time, step.amount, step.now, unclosed))
        if sum(self.part(record) == self.part(records[-1]) for record in records) == self.most:
            self.end(step.key, "limit", "")

    def passed(self, time: int) -> None:
        """Event time is at least `time`."""
        if time > self.watermark:
            self.watermark = time
            self.close("event")

    def part(self, record: Taken) -> int:
        return (record.time - self.offset) // self.every

    def open(self) -> list[tuple[int, int, bytes]]:
        """(start, first offset, key) of each open window."""
        numbers: dict[tuple[int, bytes], int] = {}
        for key, records in self.taken.items():
            for record in records:
                for start in record.windows:
                    numbers.setdefault((start, key), record.offset)
        return sorted((start, first, key) for (start, key), first in numbers.items())

    def look(self, now: float) -> None:
        """The owner's clock: windows that are over since `idle` in a silent partition, and keys that are too old."""
        over = [start + self.size + self.grace for start, *_ in self.open()]
        over = [closes for closes in over if closes <= (now - self.idle) * 1000]
        if over and now >= self.seen + self.idle:
            self.watermark = max(over)
            self.close("idle")
        for key, records in [*self.taken.items()]:
            if any(record.now + self.at_most <= now for record in records):
                self.end(key, "window", "at_most")

    def close(self, by: str) -> None:
        for start, _, key in self.open():
            if start + self.size + self.grace <= self.watermark:
                self.fire(key, start, "window", by)

    def end(self, key: bytes, reason: str, by: str) -> None:
        """All windows of the key."""
        for start, _, session in self.open():
            if session == key:
                self.fire(key, start, reason, by)

    def fire(self, key: bytes, start: int, reason: str, by: str) -> None:
        members = [record for record in self.taken[key] if start in record.windows]
        for record in members:
            record.windows.remove(start)
        offsets = [record.offset for record in members]
        values = values_of([record.amount for record in members])
        self.results.append(SessionResult(key, start, start + self.size, reason, by, offsets[0], offsets[-1], values))
        self.taken[key] = [record for record in self.taken[key] if record.windows]
        if not self.taken[key]:
            del self.taken[key]
