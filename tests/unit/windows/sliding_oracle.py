"""What sliding windows must decide, record by record, in plain Python: one list of records, no engine code."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from tests.unit.windows.oracle import Step


class SlidingResult(NamedTuple):
    """`values` are those of the records in the order of their offsets: how many, sum, least, greatest, mean, first,
    last, how many different ones, and all of them."""

    key: bytes
    start: int
    end: int
    first: int
    last: int
    values: tuple[Any, ...]


class Taken(NamedTuple):
    offset: int
    time: int
    amount: float


def values_of(amounts: list[float]) -> tuple[Any, ...]:
    """A sum is rounded once."""
    total = float(sum(map(Fraction, amounts))) if any(type(amount) is float for amount in amounts) else sum(amounts)
    mean = float(total / len(amounts))
    many = len(set(amounts))
    return (len(amounts), total, min(amounts), max(amounts), mean, amounts[0], amounts[-1], many, amounts)


@dataclass
class SlidingOracle:
    """`size`, `grace` in ms, `ahead` in seconds; of a key at most `most` records are kept. The amount of a record is
    that of its step, divided by `parts`. A window has at most `last` records, if that is not 0; then a size of 0 is no
    limit."""

    size: int
    grace: int
    ahead: float
    most: float
    parts: int = 1
    watermark: int = -1
    results: list[SlidingResult] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    taken: dict[bytes, list[Taken]] = field(default_factory=dict)
    last: int = 0

    def take(self, offset: int, step: Step) -> None:
        assert step.key is not None
        if step.time > (step.now + self.ahead) * 1000:
            if not step.left_out:
                self.refused.append((offset, "time-ahead"))
            return
        mark = max(self.watermark, step.time)
        records = self.taken.setdefault(step.key, [])
        if step.left_out:
            self.watermark = mark
        elif step.time < mark - self.grace:
            self.refused.append((offset, "late"))
        elif len(self.kept(records, mark)) >= self.most:
            self.refused.append((offset, "limit"))
        else:
            self.watermark = mark
            records.append(Taken(offset, step.time, step.amount if self.parts == 1 else step.amount / self.parts))
            within = sorted((record for record in records if record.time <= step.time), key=in_time)
            if self.size or not self.last:
                within = [record for record in within if step.time - self.size <= record.time]
            if self.last:
                within = within[-self.last :]
            start = within[0].time if self.last else step.time - self.size
            within.sort()
            values = values_of([record.amount for record in within])
            self.results.append(SlidingResult(step.key, start, step.time, within[0].offset, offset, values))

    def kept(self, records: list[Taken], watermark: int) -> list[Taken]:
        """The records of a key that a record which comes, or the newest of those that came, may have in its window."""
        least, kept = watermark - self.grace, []
        for record in records:
            behind = [item for item in records if in_time(item) > in_time(record) and item.time <= least]
            in_size = record.time >= least - self.size or (not self.size and self.last)
            by_number = not self.last or record.time > least or len(behind) < self.last
            if in_size and by_number:
                kept.append(record)
        return kept

    def look(self, now: float) -> None:
        """A clock decides nothing."""

    @property
    def left(self) -> int:
        """How many records are kept at the end."""
        return sum(len(self.kept(records, self.watermark)) for records in self.taken.values())


def in_time(record: Taken) -> tuple[int, int]:
    return record.time, record.offset
