"""The memory of a real worker: with very many buffered items, with a store that is a hundred times slower than usual,
and with a broker that stays down while everything falls due.

CI takes 100,000 items of 200 bytes; `make bounds` (SLUICEGATE_BOUNDS=whole) a million. docs/proof/bounds.md has the
measured numbers.
"""

import os
from collections.abc import Callable
from pathlib import Path

from tests.bounds.scene import PER_GROUP, document, fill, looked, now_mib, peak, started, taken
from tests.chaos.worker import Worker
from tests.conftest import create_topic
from tests.servers import Kafka, Proxy, Server, Valkey
from tests.waiting import wait_until

WHOLE = os.environ.get("SLUICEGATE_BOUNDS") == "whole"
RECORDS = 1_000_000 if WHOLE else 100_000
MOST = 600.0 if WHOLE else 300.0  # MiB; a worker that holds nothing has 55, its consumer's queue 16
SLOW = 0.25  # seconds, each way: a commit of the local Redis takes 1 to 5 ms
PATIENCE = 900.0 if WHOLE else 150.0


def test_the_memory_of_a_worker_is_bounded_whatever_is_slow_or_away(
    own_server: Callable[..., Server], proxy: Callable[..., Proxy], ns: str, tmp_path: Path
) -> None:
    kafka, store = own_server(Kafka, heap="512m"), own_server(Valkey)
    for topic in ("in", "out", "dead"):
        create_topic(kafka.url, f"{ns}.{topic}", 4, {})
    fill(kafka.url, f"{ns}.in", RECORDS)
    slow = proxy(store.url)
    slow.delay(SLOW)
    after = "500s" if WHOLE else "45s"
    worker = started(tmp_path, document(ns, kafka.url, slow.url, {"count": 2 * PER_GROUP, "timeout": {"after": after}}))
    try:
        worker.wait("partition.claimed", 4, timeout=60)
        taken(worker, RECORDS // 2, PATIENCE)
        with_slow_store = peak(worker)
        slow.delay(0.0)
        taken(worker, RECORDS, PATIENCE)
        with_everything = peak(worker)
        kafka.kill9()
        wait_until(lambda: fired(worker), PATIENCE, "every group to fall due", 0.25)
        text = f"slow store {with_slow_store:.0f}, all held {with_everything:.0f}, broker down {peak(worker):.0f}"
        print(f"{RECORDS} items, peak MiB: {text}; now {now_mib(worker):.0f}")
        assert with_everything < MOST, text
        assert peak(worker) < MOST, text
        assert unsent(worker) >= 1
    finally:
        worker.close()


def fired(worker: Worker) -> bool:
    """Are all groups closed, and their results stored, with nobody to take them? (The topic of the results is known by
    then: one group was complete.)"""
    places = looked(worker)
    return bool(places) and not any(place["groups"] for place in places)


def unsent(worker: Worker) -> int:
    return sum(place["unsent"] for place in looked(worker))


def test_the_records_of_the_test_make_groups_of_one_size() -> None:
    assert RECORDS % (PER_GROUP * 100) == 0
