"""One real worker whose memory is watched: a file, a topic full of records of 200 bytes, its peak of resident
memory."""

import json
from pathlib import Path
from typing import Any

import psutil
import yaml
from confluent_kafka import Producer

from tests.bench.processes import peak_mib
from tests.chaos.worker import Worker
from tests.waiting import wait_until

SIZE = 200  # bytes of a record's value
PER_GROUP = 250


def document(name: str, bootstrap: str, store: str, aggregate: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The file of one agent that keeps whole messages; it keeps its partitions for half an hour when the broker is
    away."""
    rule = {
        "from": f"{name}.in",
        "aggregate": {"compute": {"all": "collect"}} | aggregate,
        "to": {"topic": f"{name}.out"},
    }
    return {
        "app": name,
        "kafka": {"bootstrap.servers": bootstrap, "session.timeout.ms": 1_800_000, "max.poll.interval.ms": 1_800_000},
        "store": store,
        "http": {"port": 0},
        "dead_letters": f"{name}.dead",
        "outbox": False,
        "timeouts": False,
        "agents": {"bounded": rule | more},
    }


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Records of SIZE bytes: one key of 2 * PER_GROUP, then PER_GROUP of each key, keys side by side in thousands."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4", "log_level": 3})
    for number in range(records):
        key = -1 if number < 2 * PER_GROUP else number // (PER_GROUP * 1000) * 1000 + number % 1000
        head = f'{{"number":{number},"pad":"'
        while True:
            try:
                producer.produce(topic, (head + "x" * (SIZE - len(head) - 2) + '"}').encode(), key=str(key))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    wait_until(lambda: producer.flush(5) == 0, 240, "every record in the topic")


def started(folder: Path, spec: dict[str, Any], name: str = "bounded") -> Worker:
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(spec))
    return Worker(file, "bounded", name)


def peak(worker: Worker) -> float:
    """MiB of the child that works."""
    return peak_mib(worker.pid)


def now_mib(worker: Worker) -> float:
    """Its resident memory at this moment."""
    return psutil.Process(worker.pid).memory_info().rss / 1024 / 1024


def taken(worker: Worker, records: int, timeout: float) -> None:
    """Wait until its partitions have committed so many."""
    wait_until(
        lambda: sum(max(0, place["offset"]) for place in looked(worker)) >= records,
        timeout,
        f"{records} committed records",
        0.25,
    )


def looked(worker: Worker) -> list[dict[str, Any]]:
    try:
        return worker.partitions()
    except (OSError, json.JSONDecodeError):
        return []
