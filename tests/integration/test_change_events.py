"""A table on a real broker while workers are killed: the results are what the database would answer."""

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from tests.bench.load import PARTITIONS, create
from tests.bench.results import reader
from tests.integration.outputs import taken
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run
from tests.unit.tables.database import Database
from tests.unit.tables.database import answers as whole
from tests.waiting import wait_until

KILLS, CHANGES = 4, 4_000
FILE = (
    HEAD
    + """\
agents:
  totals:
    from: {topic: NS-orders, envelope: debezium}
    where: status != "cancelled"
    key: customer
    repartition: NS-by-customer
    aggregate: {compute: {orders: count, spent: {sum: amount}, least: {min: amount}, states: {count_by: status}}}
    emit: {on: change}
    to: {topic: NS-totals}
"""
)


class Shop(Database):
    """A larger table, whose rows are all whole."""

    def row(self, key: str) -> dict[str, Any]:
        pick = self.random.choice
        amount = pick((self.random.randrange(-50, 50), self.random.random()))
        status = pick(("new", "paid", "cancelled"))
        return {"id": key, "customer": f"c{self.random.randrange(20)}", "status": status, "amount": amount}

    def upsert(self) -> None:
        key = str(self.random.randrange(300))
        before, after = self.rows.get(key), self.row(key)
        self.rows[key] = after
        self.write(key, "c" if before is None else "u", before, after)

    def rename(self) -> None:
        self.upsert()


def answers(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {
        customer: (letter["orders"], letter["spent"], letter["least"], letter["by_status"])
        for customer, letter in whole(rows).items()
    }


@pytest.fixture
def outputs(kafka: str, ns: str) -> Iterator[tuple[Consumer, Consumer]]:
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "by-customer", "totals", "dead")))
    both = reader(kafka, f"{ns}-totals"), reader(kafka, f"{ns}-dead")
    yield both
    for consumer in both:
        consumer.close()


def newest(results: dict[bytes, Message]) -> dict[str, tuple[Any, ...]]:
    """The last result of each key that has rows. Copies are dropped, and the results of a key are in order."""
    last = {message.key().decode(): json.loads(message.value()) for message in results.values()}
    return {
        key: (result["orders"], result["spent"], result["least"], result["states"])
        for key, result in last.items()
        if not result["final"]
    }


def test_results_are_what_the_database_has_though_workers_are_killed(
    kafka: str, ns: str, tmp_path: Path, outputs: tuple[Consumer, Consumer]
) -> None:
    shop = Shop(5)
    shop.play(CHANGES)
    store = f"sqlite:///{tmp_path / 'state.db'}"
    (tmp_path / "totals.yaml").write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store))
    feed = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(tmp_path / "totals.yaml"))
    results, dead, chance = dict[bytes, Message](), dict[bytes, Message](), random.Random(3)
    killed = list[int]()  # of both agents
    share = -(-len(shop.events) // (KILLS + 1))
    try:
        for turn in range(KILLS + 1):
            for key, value in shop.events[turn * share : (turn + 1) * share]:
                feed.produce(f"{ns}-orders", value, key.encode(), int(key) % PARTITIONS)
            assert feed.flush(30) == 0
            if turn < KILLS:
                known = len(results)
                wait_until(lambda known=known: taken(outputs[0], results) > known, 60, "a result of this part")
                killed.append(chance.choice([pid for pid in run.pids(2 + turn) if pid not in killed]))
                os.kill(killed[-1], signal.SIGKILL)
        wanted = answers([*shop.rows.values()])

        def settled() -> bool:
            taken(outputs[0], results)
            return newest(results) == wanted

        wait_until(settled, 120, "the results of the table")
        assert len(wanted) == 20
        assert taken(outputs[1], dead) == 0
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
    finally:
        run.close()
        print(*run.lines[-10:], *run.noise[-10:], sep="\n")
    taken(outputs[0], results)
    assert newest(results) == wanted
