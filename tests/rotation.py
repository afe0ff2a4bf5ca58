"""What a run of `make test` takes of what is too much for each: another part every day, all of it within a few days.

`make test` says its day; `SLUICEGATE_DAY=<that number>` takes the same part again, and pytest by itself takes everything.
"""

import os
from collections.abc import Sequence
from datetime import date
from typing import TypeVar
from zlib import crc32

import pytest

T = TypeVar("T")

BACKENDS = {"[redis-cluster": 3, "[mariadb": 3, "[mongodb": 3, "[postgresql": 3}
"""In how many days a contract is shown once on a backend that shares its code with another, or is slow: Redis Cluster runs what Redis runs,
MariaDB and PostgreSQL what SQLite runs, by the same scripts and statements."""
DAY = "SLUICEGATE_DAY"  # an ordinal of the calendar: set for the processes of a run, that midnight finds them agreed


def today() -> int:
    return int(os.environ.get(DAY) or date.today().toordinal())


def of_today(cells: Sequence[T], most: int) -> list[T]:
    """So many of them, others each day: in a week all were there."""
    first = today() * most
    return [cells[(first + number) % len(cells)] for number in range(most)]


def days(item: pytest.Item) -> int:
    """In how many days this test is run once."""
    marked = [int(mark.args[0]) for mark in item.iter_markers("rotates")]
    return max([1, *marked, *(count for backend, count in BACKENDS.items() if "/contracts/" in item.nodeid and backend in item.nodeid)])


def is_due(nodeid: str, period: int, day: int) -> bool:
    return (crc32(nodeid.encode()) + day) % period == 0


def rotate(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is another day's."""
    if not os.environ.get(DAY):
        return
    due = {item: is_due(item.nodeid, days(item), today()) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not due[item]])
    items[:] = [item for item in items if due[item]]
