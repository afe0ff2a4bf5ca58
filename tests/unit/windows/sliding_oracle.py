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
    total = float(sum(map(Fraction, amounts))) if any(type(each) is float for each in amounts) else sum(amounts)
    mean = float(total / len(amounts))
    many = len(set(amounts))
    return (len(amounts), total, min(amounts), max(amounts), mean, amounts[0], amounts[-1], many, amounts)


@dataclass
class SlidingOracle:
    """`size`, `grace` in ms, `ahead` in seconds; of a key at most `most` records are kept. The amount of a record is
    that of its step, divided by `parts`."""

    size: int
    grace: int
    ahead: float
    most: float
    parts: int = 1
    watermark: int = -1
    results: list[SlidingResult] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    taken: dict[bytes, list[Taken]] = field(default_factory=dict)

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
        elif len([each for each in records if self.kept(each, mark)]) >= self.most:
            self.refused.append((offset, "limit"))
        else:
            self.watermark = mark
            records.append(Taken(offset, step.time, step.amount if self.parts == 1 else step.amount / self.parts))
            within = [each for each in records if step.time - self.size <= each.time <= step.time]
            values = values_of([each.amount for each in within])
            place = (step.key, step.time - self.size, step.time, within[0].offset, offset)
            self.results.append(SlidingResult(*place, values))

    def kept(self, record: Taken, watermark: int) -> bool:
        """Whether a record that comes may have it in its window."""
        return record.time >= watermark - self.grace - self.size

    def look(self, now: float) -> None:
        """A clock decides nothing."""

    @property
    def left(self) -> int:
        """How many records are kept at the end."""
        return sum(self.kept(each, self.watermark) for records in self.taken.values() for each in records)
