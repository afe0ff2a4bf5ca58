"""How large a store is after so many records of J1, while the number of open keys stays the same."""

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import redis

from tests.bench import jobs, samples
from tests.bench.growth.inputs import Input, difference
from tests.bench.growth.trials import FOLD, Cost, Place, running, sampled
from tests.bench.systems import Work

STORES = ("sqlite", "redis", "postgresql")
TENTHS = 10


def costs(bootstrap: str, store: str, source: Input) -> dict[int, Cost]:
    """By the number of records so far: the cost of those since the tenth before, and the size of the store in MB."""
    with running(bootstrap, source.topic, FOLD, store) as place:
        measurements, values = sampled(bootstrap, place.run, source, _size(store, place))
        problems = difference(values, source.wanted)
        problems += jobs.extra(place.run, Work(bootstrap, source.topic), len(values))
        peak = 0.0
    outcomes = {}
    for tenth in range(1, TENTHS + 1):
        begin, end = (source.records * tenths / TENTHS for tenths in (tenth - 1, tenth))
        part = samples.part(measurements, begin, end, os.cpu_count() or 1)
        size = max(
            (measurement.size for measurement in measurements if begin < measurement.records <= end), default=0.0
        )
        micros = (part.worker + part.server + part.supervisor) / (end - begin) * 1e6
        outcomes[round(end)] = Cost(micros, peak, {"MB": size / 1e6}, problems)
    return outcomes


def _size(store: str, place: Place) -> Callable[[], float]:
    """The bytes of the store: the files of SQLite, the memory of Redis, the relations of PostgreSQL."""
    if store == "sqlite":
        return lambda: sum(_bytes(file) for file in place.file.parent.glob("bench.db*"))
    if store == "redis":
        client = redis.Redis.from_url(place.url)
        return lambda: float(client.info("memory")["used_memory"])
    return lambda: _relations(place.url)


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # the log of SQLite went meanwhile
        return 0


def _relations(url: str) -> float:
    query = "select sum(pg_total_relation_size(c.oid)) from pg_class c where c.relkind = 'r' and c.relnamespace = "
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query + "'public'::regnamespace").fetchone()
    return float(row[0] or 0) if row else 0.0
