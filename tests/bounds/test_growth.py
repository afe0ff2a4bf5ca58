"""A worker that runs for long takes no more memory than one that has just warmed up: new keys, groups that end by count
and by time, dead letters and known ids come and go. The twin keeps some bytes of each group, and is found.

CI takes some 300,000 records, `make bounds` (SLUICEGATE_BOUNDS=whole) as many as come in six minutes;
docs/proof/bounds.md has the numbers.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.bounds.growth import grown
from tests.bounds.scene import now_mib, started, taken
from tests.bounds.test_bounds import WHOLE
from tests.chaos.worker import Worker

RECORDS = 50_000 if WHOLE else 20_000  # of one round
ROUNDS = 30 if WHOLE else 14
SECONDS = 360.0 if WHOLE else 0.0
A_GROUP = 10
MOST = 5.0 if WHOLE else 50.0  # bytes a record: an allocator's noise is some 2 MiB, over the rounds that count
LEAK = 2_000  # bytes of a group: 200 of a record
KEEPING = """
KEPT = []

def pass_on(batch, send):
    {keep}
    send(batch.value, key=batch.key)
"""


def document(ns: str, kafka: str, store: str) -> dict[str, Any]:
    """Groups of ten, one in a hundred of which waits for its timeout; an id is known among the newest 10,000 of a
    partition."""
    rule = {
        "from": f"{ns}.in",
        "aggregate": {"count": A_GROUP, "timeout": {"after": "2s"}, "compute": {"all": "collect"}},
        "handler": "leaking:pass_on",
        "to": {"topic": f"{ns}.out"},
        "dedupe": {"id": "header:id", "horizon": "1h", "max_ids": 10_000},
    }
    return {
        "app": ns,
        "kafka": {"bootstrap.servers": kafka},
        "store": store,
        "http": {"port": 0},
        "dead_letters": f"{ns}.dead",
        "outbox": False,
        "timeouts": False,
        "agents": {"bounded": rule},
    }


def produce(kafka: str, topic: str, first: int) -> None:
    """RECORDS from the number `first` on: keys that were never there, some records that are not JSON."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "compression.type": "lz4", "log_level": 3})
    for number in range(first, first + RECORDS):
        value = b"{no json" if number % 1000 == 7 else b'{"number":%d,"pad":"%s"}' % (number, b"x" * 160)
        while True:
            try:
                producer.produce(topic, value, str(number // A_GROUP), headers=[("id", str(number).encode())])
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def sampled(worker: Worker, kafka: str, topic: str, seconds: float) -> list[float]:
    """MiB of the worker after each round, for at least so long."""
    samples: list[float] = []
    began = time.monotonic()
    while len(samples) < ROUNDS or time.monotonic() - began < seconds:
        produce(kafka, topic, len(samples) * RECORDS)
        taken(worker, (len(samples) + 1) * RECORDS, 120)
        samples.append(now_mib(worker))
    return samples


@pytest.mark.parametrize("leaks", [False, True], ids=["as it is", "twin that leaks"])
def test_a_long_run_takes_no_more_memory(
    leaks: bool, kafka: str, redis_url: str, make_topic: Callable[..., str], ns: str, tmp_path: Path
) -> None:
    for topic, partitions in (("in", 4), ("out", 4), ("dead", 1)):
        make_topic(f"{ns}.{topic}", partitions, retention_bytes=50_000_000, segment_bytes=20_000_000)
    (tmp_path / "leaking.py").write_text(KEEPING.format(keep=f"KEPT.append(bytearray({LEAK}))" if leaks else ""))
    worker = started(tmp_path, document(ns, kafka, redis_url))
    try:
        worker.wait("partition.claimed", 4, timeout=60)
        samples = sampled(worker, kafka, f"{ns}.in", 0.0 if leaks else SECONDS)
        growth = grown(samples, RECORDS)
        text = (
            f"{len(samples) * RECORDS} records, MiB after each round: "
            f"{' '.join(f'{sample:.0f}' for sample in samples)}; {growth}"
        )
        print(f"{text}; {growth.bytes_a_record:.1f} bytes a record")
        assert (growth.bytes_a_record > MOST) == leaks, text
    finally:
        worker.close()


def test_growth_is_told_from_noise() -> None:
    steady = [55, 70, 90, 95, 100, 99, 104, 100, 101, 99, 103, 100]
    assert abs(grown(steady, 1000).mib) <= 2
    leaking = [size + 5 * number for number, size in enumerate(steady)]
    assert grown(leaking, 1000).mib > 20
    with pytest.raises(ValueError, match="too few"):
        grown(steady[:8], 1000)
