"""What session windows must decide, record by record, in plain Python: lists and dictionaries, no engine code."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from tests.unit.windows.oracle import Step


class SessionResult(NamedTuple):
    """`values` are those of the records in order of their offsets: how many, sum, least, greatest, first, last, how
    many different ones, and all of them, sorted."""

    key: bytes
    start: int
    end: int
    reason: str
    closed_by: str
    first: int
    last: int
    values: tuple[Any, ...]

    @property
    def count(self) -> int:
        return int(self.values[0])

    @property
    def total(self) -> int:
        return int(self.values[1])


@dataclass
class Session:
    """`records` are (offset, time, amount); `seen` is the owner's time of the last one."""

    seen: float
    records: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def begin(self) -> int:
        return min(time for _, time, _ in self.records)

    @property
    def end(self) -> int:
        return max(time for _, time, _ in self.records)

    def result(self, key: bytes, gap: int, reason: str, by: str) -> SessionResult:
        records = sorted(self.records)
        values = values_of([amount for *_, amount in records])
        return SessionResult(key, self.begin, self.end + gap, reason, by, records[0][0], records[-1][0], values)


def values_of(amounts: list[int]) -> tuple[Any, ...]:
    """In the order of the offsets."""
    return (
        len(amounts),
        sum(amounts),
        min(amounts),
        max(amounts),
        amounts[0],
        amounts[-1],
        len(set(amounts)),
        sorted(amounts),
    )


@dataclass
class SessionOracle:
    """`gap` and `grace` in ms; `idle`, `at_most`, `ahead` in seconds; a session of `most` records ends, and so does one
    of `complete` records. `until` is asked of each record: its amount, and the amounts of the sessions that it joins,
    with its own.

    `reopened` tells whether a record that is not late touched a session that was closed already."""

    gap: int
    grace: int
    idle: float
    at_most: float
    ahead: float
    most: int
    complete: float = inf
    until: Callable[[int, list[int]], bool] | None = None
    watermark: int = -1
    seen: float = 0.0
    results: list[SessionResult] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    open: dict[bytes, list[Session]] = field(default_factory=dict)
    reopened: bool = False

    def closes(self, session: Session) -> int:
        return session.end + self.gap + self.grace + 1

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
        sessions = self.open.setdefault(step.key, [])
        touched = [session for session in sessions if session.begin - self.gap <= step.time <= session.end + self.gap]
        if not touched and step.time + self.gap + self.grace < self.watermark:
            self.late(offset, step)
            return
        self.reopened |= any(
            result.key == step.key and result.start - self.gap <= step.time <= result.end for result in self.results
        )
        if not touched:
            touched = [Session(step.now)]
            sessions += touched
        touched.sort(key=lambda session: min(session.records, default=(0,)))
        self.add(step, offset, touched)

    def late(self, offset: int, step: Step) -> None:
        self.refused.append((offset, "late"))

    def passed(self, time: int) -> None:
        """Event time is at least `time`."""
        if time > self.watermark:
            self.watermark = time
            self.close("event")

    def add(self, step: Step, offset: int, touched: list[Session]) -> None:
        assert step.key is not None
        one, *others = touched
        one.records.append((offset, step.time, step.amount))
        one.seen = step.now
        amounts = [amount for session in touched for *_, amount in session.records]
        ends = self.until is not None and self.until(step.amount, amounts)
        if ends or len(one.records) < min(self.most, self.complete):
            for other in others:
                one.records += other.records
                self.open[step.key].remove(other)
        if len(one.records) >= self.complete:
            self.end(step.key, one, "count", "")
        elif ends:
            self.end(step.key, one, "until", "")
        elif len(one.records) >= self.most:
            self.end(step.key, one, "limit", "")

    def look(self, now: float) -> None:
        """The owner's clock: sessions that are over since `idle` in a silent partition, and those that are too old."""
        over = [self.closes(session) for sessions in self.open.values() for session in sessions]
        over = [closes for closes in over if closes <= self.silent_until(now)]
        if over:
            self.watermark = max(over)
            self.close("idle")
        for key, sessions in self.open.items():
            for session in [session for session in sessions if session.seen + self.at_most <= now]:
                self.end(key, session, "window", "at_most")

    def silent_until(self, now: float) -> float:
        """Silence closes the sessions that close at this watermark or before."""
        return (now - self.idle) * 1000 if now >= self.seen + self.idle else -inf

    def close(self, by: str) -> None:
        over = [(key, session) for key, sessions in self.open.items() for session in sessions]
        for key, session in sorted(over, key=lambda one: (one[1].end, min(one[1].records))):
            if self.closes(session) <= self.watermark:
                self.end(key, session, "window", by)

    def end(self, key: bytes, session: Session, reason: str, by: str) -> None:
        self.open[key].remove(session)
        self.results.append(session.result(key, self.gap, reason, by))
