"""`where`, `let`, `until`, `having` and routes on a real broker and a real store, with a worker that is killed."""

import json
import os
import signal
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.outputs import taken
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

RECORDS = 2_000
COUNT = 5
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  sums:
    from: NS-orders
    where: amount > 10 && country in ["DE", "FR"]
    let: {double_amount: amount * 2}
    aggregate: {count: 5, compute: {spent: {sum: double_amount}}}
    having: spent % 4 == 0
    to:
      - {topic: NS-all, continue: true, select: [key, spent]}
      - {topic: NS-large, where: spent >= 300}
      - drop
"""
STORES = ("sqlite", "redis_url", "postgres_url", "mariadb_url", "mongodb_url")


def order(number: int) -> dict[str, Any]:
    """Every 17th has no country."""
    value = {"n": number, "amount": number % 53}
    return value if number % 17 == 0 else {**value, "country": ("DE", "FR", "US")[number % 3]}


def oracle() -> tuple[dict[str, list[int]], int]:
    """The sums that are sent, by key, and the number of records on which `where` fails."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    failed = 0
    for number in range(RECORDS):
        value = order(number)
        if value["amount"] > 10 and "country" not in value:
            failed += 1
        elif value["amount"] > 10 and value["country"] in ("DE", "FR"):
            groups[f"k{number % 7}"].append(value["amount"] * 2)
    sums = {
        key: [sum(taken[first : first + COUNT]) for first in range(0, len(taken) // COUNT * COUNT, COUNT)]
        for key, taken in groups.items()
    }
    return {key: [total for total in totals if total % 4 == 0] for key, totals in sums.items()}, failed


def sums(messages: dict[bytes, Message]) -> dict[str, list[int]]:
    result: defaultdict[str, list[int]] = defaultdict(list)
    for message in sorted(messages.values(), key=lambda message: (message.partition(), message.offset())):
        result[message.key().decode()].append(json.loads(message.value())["spent"])
    return dict(result)


@pytest.mark.parametrize("store", STORES)
def test_filters_sums_and_routes_survive_a_kill(
    tmp_path: Path, kafka: str, ns: str, store: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}" if store == "sqlite" else request.getfixturevalue(store)
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "all", "large", "dead")))
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    wanted, failed = oracle()
    outputs, large, letters = [reader(kafka, f"{ns}-{name}") for name in ("all", "large", "dead")]
    everything: dict[bytes, Message] = {}
    routed: dict[bytes, Message] = {}
    dead: dict[bytes, Message] = {}
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(path))
    try:
        for number in range(RECORDS):
            producer.produce(f"{ns}-orders", json.dumps(order(number)), key=f"k{number % 7}")
            if number == RECORDS // 2:
                assert producer.flush(20) == 0
                wait_until(lambda: taken(outputs, everything) > 3, 60, "the first results")
                os.kill(run.pids(1)[0], signal.SIGKILL)
        assert producer.flush(20) == 0
        complete = sum(map(len, wanted.values()))
        wait_until(lambda: taken(outputs, everything) >= complete and taken(letters, dead) >= failed, 90, "all results")
        run.wait("worker.started", 2)
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
        for consumer, into in ((outputs, everything), (large, routed), (letters, dead)):
            wait_until(lambda inputs=consumer, all=into: len(all) == taken(inputs, all), 20, "what is left")
    finally:
        run.close()
        for consumer in (outputs, large, letters):
            consumer.close()
    assert sums(everything) == wanted
    assert sums(routed) == {key: rest for key, record in wanted.items() if (rest := [s for s in record if s >= 300])}
    assert len(dead) == failed
    assert {dict(message.headers())["sluicegate-dead-clause"] for message in dead.values()} == {b"where"}
    assert all(json.loads(message.value()).keys() == {"key", "spent"} for message in everything.values())


PALLETS = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  pallets:
    from: NS-parcels
    aggregate:
      until: group.weight >= limit
      compute: {weight: {sum: kg}, kinds: {distinct: kind}}
    to: {topic: NS-pallets}
"""


def parcel(number: int) -> dict[str, Any]:
    """Every 19th has no limit."""
    value = {"kg": number % 53, "kind": number % 5}
    return value if number % 19 == 0 else {**value, "limit": 150 + number % 3}


def pallets() -> tuple[dict[str, list[tuple[int, int, int]]], int]:
    """Count, weight and kinds of each group that is complete, by key, and how many records `until` cannot answer."""
    numbers: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    groups: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    refused = 0
    for number in range(RECORDS):
        key, value = f"k{number % 7}", parcel(number)
        if "limit" not in value:
            refused += 1
            continue
        groups[key].append(value)
        weight = sum(group["kg"] for group in groups[key])
        if weight >= value["limit"]:
            numbers[key].append((len(groups[key]), weight, len({group["kind"] for group in groups.pop(key)})))
    return dict(numbers), refused


@pytest.mark.parametrize("store", ["sqlite", "postgres_url"])
def test_groups_that_end_by_their_weight_survive_a_kill(
    tmp_path: Path, kafka: str, ns: str, store: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}" if store == "sqlite" else request.getfixturevalue(store)
    create(kafka, *(f"{ns}-{name}" for name in ("parcels", "pallets", "dead")))
    path = tmp_path / "pallets.yaml"
    path.write_text(PALLETS.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    wanted, refused = pallets()
    outputs, letters = [reader(kafka, f"{ns}-{name}") for name in ("pallets", "dead")]
    messages: dict[bytes, Message] = {}
    dead: dict[bytes, Message] = {}
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(path))
    try:
        for number in range(RECORDS):
            producer.produce(f"{ns}-parcels", json.dumps(parcel(number)), key=f"k{number % 7}")
            if number == RECORDS // 2:
                assert producer.flush(20) == 0
                wait_until(lambda: taken(outputs, messages) > 3, 60, "the first results")
                os.kill(run.pids(1)[0], signal.SIGKILL)
        assert producer.flush(20) == 0
        complete = sum(map(len, wanted.values()))
        wait_until(lambda: taken(outputs, messages) >= complete and taken(letters, dead) >= refused, 90, "all results")
        run.wait("worker.started", 2)
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
        for consumer, into in ((outputs, messages), (letters, dead)):
            wait_until(lambda inputs=consumer, all=into: len(all) == taken(inputs, all), 20, "what is left")
    finally:
        run.close()
        outputs.close()
        letters.close()
    got: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for message in sorted(messages.values(), key=lambda message: (message.partition(), message.offset())):
        document = json.loads(message.value())
        assert document["reason"] == "until"
        got[message.key().decode()].append((document["count"], document["weight"], document["kinds"]))
    assert got == wanted
    assert len(dead) == refused
    assert {dict(message.headers())["sluicegate-dead-clause"] for message in dead.values()} == {b"until"}
