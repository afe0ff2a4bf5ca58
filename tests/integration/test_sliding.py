"""Sliding windows, by time and by number, on a real broker while workers are killed: each record has the result of the
naive oracle, once."""

from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from sluicegate.streams.aggregation.results import rfc3339
from tests.integration.storm_file import HEAD
from tests.integration.windowed_storm import OracleLog, outputs_of, stormed
from tests.unit.windows.sliding_oracle import SlidingOracle

RECORDS = 6_000
GRACE = 2_000  # ms
WINDOWS = {"sliding: 1s": (1_000, 0), "last: 5": (0, 5), "sliding: 1s, last: 5": (1_000, 5)}
"""Each with its size in ms and its number of records, for the oracle."""
FILE = (
    HEAD
    + """\
agents:
  sums:
    from: NS-in
    aggregate:
      window: {WINDOW, grace: 2s, time: {field: at, unit: ms}}
      compute: {total: {sum: amount}}
    to: {topic: NS-out}
"""
)


@pytest.fixture
def outputs(kafka: str, ns: str) -> Iterator[tuple[Consumer, Consumer]]:
    with outputs_of(kafka, ns) as both:
        yield both


@pytest.mark.parametrize("window", WINDOWS)
def test_each_record_has_its_result_once_though_workers_are_killed(
    window: str, kafka: str, ns: str, tmp_path: Path, outputs: tuple[Consumer, Consumer]
) -> None:
    size, last = WINDOWS[window]
    log = OracleLog(7, RECORDS, [100, 1_500, 4_000], lambda: SlidingOracle(size, GRACE, inf, inf, last=last))
    store = f"sqlite:///{tmp_path / 'state.db'}"
    text = FILE.replace("WINDOW", window).replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store)
    documents, dead = stormed(text, log, kafka, ns, tmp_path, outputs)
    sent = sorted(
        (document["key"], document["window"]["start"], document["window"]["end"], document["count"], document["total"])
        for document in documents
    )
    assert sent == sorted(
        (result.key.decode(), rfc3339(result.start / 1000), rfc3339(result.end / 1000), *result.values[:2])
        for result in log.results
    )
    assert {dict(message.headers())["sluicegate-dead-reason"] for message in dead} == {b"late"}
    assert len(dead) == log.late > 0
