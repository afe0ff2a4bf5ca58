"""What a lookup adds to a commit of 1,000 messages on PostgreSQL.

    python -m tests.bench.lookups [--commits 60] [--rows 0]

Three agents forward the same messages of 200 bytes, one of them with the row of one of 10,000 customers in a table, one
with the newest record of one of 10,000 customers in a topic. Each commit is
timed from the intake of its records to the answer of the store; the relay is not. They take turns. The tenth
percentile is the figure that others on the machine disturb least; `cpu` is the time of this process alone.
"""

import argparse
import gc
import json
import random
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from statistics import median, quantiles
from typing import Any

import psutil
from confluent_kafka import Producer

from sluicegate.connectors import open_store
from sluicegate.connectors.kafka.table import KafkaTable
from sluicegate.streams.agent import Agent, Destination, Lookup
from sluicegate.streams.cli.child import COLLECTIONS
from sluicegate.streams.lookups.tables import TopicTable
from sluicegate.streams.ownership.owner import Owner
from tests.bench.load import create
from tests.servers import Kafka, Postgres
from tests.servers.shared import open_server
from tests.unit.engine.driver import Driver, Log, ManualClock

MESSAGES, CUSTOMERS = 1_000, 10_000
ROW = Lookup("customer", "table", "bench_customers", "customer_id", ("name", "tier"), "id")
PLAIN = Agent("plain", ("in",), None, Destination("out"), "dead")
RECORD = Lookup("customer", "topic", "customers", "customer_id", ("name", "tier"))
AGENTS = {
    "plain": PLAIN,
    "lookup": replace(PLAIN, name="lookup", lookups=(ROW,)),
    "topic": replace(PLAIN, name="topic", lookups=(RECORD,)),
}


class Timed:
    """One agent, and the seconds of its commits."""

    def __init__(self, agent: Agent, url: str) -> None:
        self.log = Log()
        for topic in ("in", "out", "dead"):
            self.log.create(topic, 1)
        self.log.create("customers", 1)
        for number in range(CUSTOMERS):
            row = json.dumps({"name": f"customer {number}", "tier": number % 3}).encode()
            self.log.append("customers", 0, b"c-%d" % number, row)
        self.store = open_store(url)
        self.driver = Driver(agent, self.store, self.log, ManualClock()).give(0).turns()
        self.seconds: list[float] = []
        self.cpu: list[float] = []

    @property
    def owner(self) -> Owner:
        return self.driver.worker._owners["in", 0]

    def commit(self, values: list[bytes]) -> None:
        begin = len(self.log.topics["in"][0])
        for value in values:
            self.log.append("in", 0, b"k", value)
        records: Any = self.log.topics["in"][0][begin:]
        gc.freeze()  # the log of the driver keeps all records, which a broker does not
        owner, before, cpu = self.owner, time.perf_counter(), time.thread_time()
        owner.accept(records, self.driver.clock.now)
        owner.commit(self.driver.clock.now)
        self.seconds.append(time.perf_counter() - before)
        self.cpu.append(time.thread_time() - cpu)
        assert owner.claim.offset == begin + len(values)
        self.driver.input.give(("in", 0))
        self.driver.turns(4).later(1).turns(2)  # the relay sends the rows and records the reports


def tables(url: str) -> None:
    store: Any = open_store(url)
    store.migrate()
    for sql in (
        "drop table if exists bench_customers",
        "create table bench_customers (id text primary key, name text, tier integer)",
        "insert into bench_customers select 'c-' || n, 'customer ' || n, n %% 3 "
        f"from generate_series(0, {CUSTOMERS - 1}) n",
        "analyze bench_customers",
    ):
        store._database.run(lambda db, sql=sql: db.run(sql, ()))
    store.close()


def loaded(rows: int) -> None:
    """How long a process takes to have a topic of this size as a table, and how much memory a row takes."""
    lookup = replace(RECORD, max_rows=rows, max_table_bytes=rows * 1000)
    process = psutil.Process()
    with ExitStack() as stack:
        server = open_server(Kafka())
        stack.callback(server.destroy)
        kafka: dict[str, Any] = {"bootstrap.servers": str(server.url)}
        create(str(server.url), "customers")
        feed = Producer({**kafka, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
        for number in range(rows):
            row = json.dumps({"name": f"customer {number}", "tier": number % 3}).encode()
            feed.produce("customers", row, b"c-%d" % number)
            feed.poll(0)
        feed.flush(120)
        del feed
        before, cpu, begin = process.memory_info().rss, time.process_time(), time.perf_counter()
        table = TopicTable(lookup, partial(KafkaTable, kafka), time.monotonic, 1 << 20)
        while table.waits_for:
            table.follow()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        size = (process.memory_info().rss - before) / rows
        print(f"{len(table):,} rows in {seconds:.1f} s, {cpu:.1f} CPU-s")
        print(f"{size:.0f} bytes a row; table_bytes says {table.bytes / rows:.0f}")
        table.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--rows", type=int, default=0, help="instead, read a topic of so many rows from a real broker")
    asked = parser.parse_args()
    if asked.rows:
        return loaded(asked.rows)
    chosen = random.Random(7)
    gc.set_threshold(*COLLECTIONS)
    with ExitStack() as stack:
        server = open_server(Postgres())
        stack.callback(server.destroy)
        url = str(server.url)
        tables(url)
        timed = {name: Timed(agent, url) for name, agent in AGENTS.items()}
        for _ in range(asked.commits):
            values = [
                json.dumps({"id": n, "customer_id": f"c-{chosen.randrange(CUSTOMERS)}", "text": "x" * 140}).encode()
                for n in range(MESSAGES)
            ]
            for times in timed.values():
                times.commit(values)
        for what in ("seconds", "cpu"):
            least = {name: quantiles(getattr(times, what)[5:], n=10)[0] * 1000 for name, times in timed.items()}
            usual = {name: median(getattr(times, what)[5:]) * 1000 for name, times in timed.items()}
            for name in timed:
                print(f"{what}: {name} {least[name]:.2f} ms a commit, median {usual[name]:.2f}")
            for name in [name for name in timed if name != "plain"]:
                print(f"{what}: {name} adds {100 * (least[name] / least['plain'] - 1):.1f} %")


if __name__ == "__main__":
    main()
