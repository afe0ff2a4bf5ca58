"""Hopping windows on a real broker while workers are killed: each window once, with the records of the naive oracle."""

from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from sluicegate.streams.aggregation.results import rfc3339
from tests.bench.load import PARTITIONS
from tests.integration.storm_file import HEAD
from tests.integration.windowed_storm import OracleLog, outputs_of, stormed
from tests.unit.windows.hopping_oracle import HoppingOracle

RECORDS = 12_000
SIZE, EVERY, GRACE = 4_000, 1_000, 1_000  # ms
FILE = (
    HEAD
    + """\
agents:
  sums:
    from: NS-in
    aggregate:
      window: {hopping: 4s, every: 1s, grace: 1s, time: {field: at, unit: ms}, idle: never}
      compute: {total: {sum: amount}}
    to: {topic: NS-out}
"""
)


@pytest.fixture(params=["sqlite", "redis_url"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    sqlite = f"sqlite:///{tmp_path / 'state.db'}"
    return sqlite if request.param == "sqlite" else str(request.getfixturevalue(request.param))


@pytest.fixture
def outputs(kafka: str, ns: str) -> Iterator[tuple[Consumer, Consumer]]:
    with outputs_of(kafka, ns) as both:
        yield both


def test_each_window_comes_once_though_workers_are_killed(
    store: str, kafka: str, ns: str, tmp_path: Path, outputs: tuple[Consumer, Consumer]
) -> None:
    log = OracleLog(
        7, RECORDS, [100, 1_500, 7_000], lambda: HoppingOracle(SIZE, EVERY, 0, GRACE, inf, inf, inf, RECORDS)
    )
    for number in range(PARTITIONS):
        log.add(number, b"last", 1_000_000, 0)
    text = FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store)
    documents, dead = stormed(text, log, kafka, ns, tmp_path, outputs)
    sent = sorted(
        (document["key"], document["window"]["start"], document["count"], document["total"]) for document in documents
    )
    assert sent == sorted(
        (result.key.decode(), rfc3339(result.start / 1000), result.count, result.total) for result in log.results
    )
    assert {dict(message.headers())["sluicegate-dead-reason"] for message in dead} == {b"late"}
    assert len(dead) == log.late > 0
    assert sum(oracle.partly for oracle in log.oracles) > 0
