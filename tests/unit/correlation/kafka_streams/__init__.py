"""What an outer join of Kafka Streams says about the records of two legs, for logs that a seed makes.

`joins.txt.gz` holds the answers of its TopologyTestDriver, one line for each log:

    python -m tests.unit.correlation.kafka_streams

asks it again and writes them. A Java 17 runtime and Maven are needed for that and for nothing else.
"""

import gzip
import random
from pathlib import Path
from typing import NamedTuple

from tests.unit.windows.kafka_streams import answered

HERE = Path(__file__).parent
ANSWERS = HERE / "joins.txt.gz"
LOGS = 1_000
FLUSH = 2_000_000  # ms: the last record of each leg ends everything
ABSENT = -1


class Record(NamedTuple):
    """`time` in ms; `leg` is 0 or 1."""

    time: int
    key: str
    leg: int


class Log(NamedTuple):
    """`after` in ms: how far the two legs of a match may be apart."""

    after: int
    records: tuple[Record, ...]

    def line(self) -> str:
        return f"{self.after} {' '.join(f'{record.time}:{record.key}:{record.leg}' for record in self.records)}"


Pairs = list[tuple[int, int]]
"""The indexes of the records of each result, ABSENT for a leg that did not come; sorted."""


def log(seed: int) -> Log:
    """Up to 40 keys, each with one record of one leg or of both. Each leg is in the order of time, and one leg may be
    far behind the other one. Many legs are exactly as far apart as they may be, or a millisecond more."""
    chance = random.Random(f"kafka-streams/joins/{seed}")
    after, legs = chance.choice([500, 2_000, 5_000]), list[list[Record]]([[], []])
    for number in range(chance.randint(1, 40)):
        time, leg = 20_000 + chance.randint(0, 30_000), chance.randrange(2)
        legs[leg].append(Record(time, f"k{number}", leg))
        if chance.random() < 0.7:
            apart = chance.choice([after, after + 1, after - 1, chance.randint(0, 2 * after)])
            legs[1 - leg].append(Record(time + chance.choice([-1, 1]) * apart, f"k{number}", 1 - leg))
    waiting = [sorted(leg, reverse=True) for leg in legs]
    mixed, share = list[Record](), chance.choice([0.1, 0.5, 0.9])
    while any(waiting):
        chosen = 0 if chance.random() < share else 1
        mixed.append((waiting[chosen] or waiting[1 - chosen]).pop())
    return Log(after, (*mixed, Record(FLUSH, "flush", 0), Record(FLUSH, "flush", 1)))


def logs() -> list[Log]:
    return [log(seed) for seed in range(LOGS)]


def asked(logs: list[Log]) -> list[str]:
    """The answers of Kafka Streams, a line for each log. Raises Unavailable without Java or Maven."""
    return answered(HERE / "Joins.java", [log.line() for log in logs])


def read(line: str) -> Pairs:
    pairs = (tuple(map(int, word.split(":"))) for word in line.split())
    return sorted((one, other) for one, other in pairs)


def recorded() -> list[Pairs]:
    return [read(line) for line in gzip.decompress(ANSWERS.read_bytes()).decode().splitlines()]
