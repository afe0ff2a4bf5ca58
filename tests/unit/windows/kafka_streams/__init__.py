"""What Kafka Streams decides about windows, for logs out of order that a seed makes.

`tumbling.txt.gz`, `hopping.txt.gz` and `session.txt.gz` hold the answers of its TopologyTestDriver, one line for each
log:

    python -m tests.unit.windows.kafka_streams

asks it again and writes them. A Java 17 runtime and Maven are needed for that and for nothing else.
"""

import gzip
import random
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.servers import jars
from tests.servers.program import Unavailable

HERE = Path(__file__).parent
KINDS = ("tumbling", "hopping", "session")
LOGS = 1_000
MANY = {"tumbling": LOGS, "hopping": LOGS, "session": 1_600}
"""A third of the logs of sessions cannot be compared (test_same_as_kafka_streams.py)."""
FLUSH = 1_000_000  # ms: the last record closes every window
GRACES = (0, 1, 500, 3_000, 10_000)


class Log(NamedTuple):
    """Times in ms; `size` is the gap of a session, and `every` the time between two starts of hopping windows. A record
    is time, key and amount."""

    size: int
    grace: int
    records: tuple[tuple[int, str, int], ...]
    kind: str
    every: int

    def line(self) -> str:
        kind = "session" if self.kind == "session" else "window"
        records = " ".join(f"{time}:{key}:{amount}" for time, key, amount in self.records)
        return f"{kind} {self.size} {self.every} {self.grace} {records}"


class Closed(NamedTuple):
    key: str
    start: int
    end: int
    count: int
    total: int


class Answer(NamedTuple):
    """The indexes of the late records, and the windows that the event time closed, sorted."""

    late: list[int]
    windows: list[Closed]


def log(seed: int, kind: str) -> Log:
    """Up to 60 records of three keys that are up to 12 s out of order. Many times lie at the edge of a window."""
    chance = random.Random(f"kafka-streams/{seed}" if kind == "tumbling" else f"kafka-streams/{kind}/{seed}")
    size, grace = chance.choice([1_000, 5_000, 7_500]), chance.choice(GRACES)
    every = size // chance.choice([2, 4, 5]) if kind == "hopping" else size
    now, records = 30_000 if kind == "hopping" else 12_000, []
    for _ in range(chance.randint(1, 60)):
        now += chance.choice([0, 1, 100, 400, 2_000, 9_000])
        time = now - chance.randint(0, chance.choice([0, 200, 1_000, 4_000, 12_000]))
        if chance.random() < 0.3:
            edge = records[-1][0] + size if kind == "session" and records else time // every * every
            time = max(0, edge + chance.choice([-1, 0, 1]))
        records.append((time, chance.choice("abc"), chance.randint(-5, 5)))
    return Log(size, grace, (*records, (FLUSH, "flush", 0)), kind, every)


def logs(kind: str) -> list[Log]:
    return [log(seed, kind) for seed in range(MANY[kind])]


def answers(kind: str) -> Path:
    return HERE / f"{kind}.txt.gz"


def asked(logs: list[Log]) -> list[str]:
    """The answers of Kafka Streams, a line for each log. Raises Unavailable without Java or Maven."""
    return answered(HERE / "Windows.java", [log.line() for log in logs])


def answered(program: Path, lines: list[str]) -> list[str]:
    """What this Java program with Kafka Streams answers, a line for each line. Raises Unavailable without Java or
    Maven."""
    java = shutil.which("java")
    if java is None:
        raise Unavailable("Kafka Streams needs java on the PATH: install a Java 17 runtime")
    command = [java, "-Xmx512m", "-cp", f"{jars.kafka_streams()}/*", str(program)]
    text = "".join(line + "\n" for line in lines)
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, timeout=300
    ).stdout.splitlines()


def read(line: str) -> Answer:
    late, windows = line.split(" | ") if " | " in line else line.split(" |")
    closed = [word.split(":") for word in windows.split()]
    return Answer([int(word) for word in late.split()], sorted(Closed(c[0], *map(int, c[1:])) for c in closed))


def recorded(kind: str) -> list[Answer]:
    return [read(line) for line in gzip.decompress(answers(kind).read_bytes()).decode().splitlines()]
