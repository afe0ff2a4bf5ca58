"""A correlation with all that an agent has, on a real broker and PostgreSQL, whose workers are killed. Its legs leave
out records and duplicates, one of them reads CloudEvents. Its groups get a row, a handler with a session, a history.

Each order that was paid has one row in the handler's table, with the tier of its customer at that moment.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from sqlalchemy import Engine, create_engine, text

from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

ORDERS, CUSTOMERS, AGENTS = 400, 20, 3
FILE = (
    HEAD
    + """\
agents:
  settle:
    where: default(test, false) == false
    correlate:
      legs:
        order: {from: NS-orders, let: {ref: 'id.split("/")[0]'}, key: ref, dedupe: {id: header:event}}
        payment:
          from: {topic: NS-payments, envelope: cloudevents}
          where: type == "paid"
          key: data.order
          keep: all
          dedupe: {id: id}
      complete: has(order) && size(payment) >= 2
      timeout: {after: 1h, clock: CLOCK}
    lookup: {customer: {table: TABLE_customers, column: id, key: order.customer, fields: [tier], missing: dead-letter}}
    handler: MODULE:enter
    session: true
    history: NS-ended
"""
)
HANDLER = """\
from sqlalchemy import text

INSERT = text("insert into TABLE_settled (id, tier, amount) values (:id, :tier, :amount)")


def enter(value, lookups, session):
    amount = sum(event["data"]["amount"] for event in value["payment"])
    row = {"id": value["key"], "tier": lookups["customer"]["tier"], "amount": amount}
    session.connection.execute(INSERT, row)
"""


class Shop:
    """The table has no unique key: what is settled twice is there twice."""

    def __init__(self, url: str, kafka: str, ns: str, folder: Path, clock: str) -> None:
        self.ns, self.table = ns, ns.replace("-", "_")
        self.engine: Engine = create_engine(f"postgresql+psycopg://{url.partition('://')[2]}")
        self.path = folder / "shop.yaml"
        module = f"shop_{self.table}"
        (folder / f"{module}.py").write_text(HANDLER.replace("TABLE", self.table))
        values = {"TABLE": self.table, "MODULE": module, "NS": ns, "KAFKA": kafka, "STORE": url, "CLOCK": clock}
        content = FILE
        for name, value in values.items():
            content = content.replace(name, value)
        self.path.write_text(content)
        self.ask("create table NS_customers (id varchar(20) primary key, tier varchar(20))")
        self.ask("create table NS_settled (id varchar(20), tier varchar(20), amount integer)")
        for number in range(CUSTOMERS):
            self.ask("insert into NS_customers values (:id, :tier)", id=f"c-{number}", tier=f"tier {number % 3}")
        self.feed = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
        self.readers = [reader(kafka, f"{ns}-{name}") for name in ("ended", "dead")]
        self.ended: dict[bytes, dict[str, Any]] = {}
        self.dead: list[Any] = []
        self.run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(self.path))

    def ask(self, sql: str, **values: Any) -> list[Any]:
        with self.engine.begin() as connection:
            result = connection.execute(text(sql.replace("NS", self.table)), values)
            return list(result) if result.returns_rows else []

    @property
    def settled(self) -> list[Any]:
        return self.ask("select id, tier, amount from NS_settled")

    def order(self, number: int, test: bool = False) -> None:
        value = {"id": f"o-{number}/1", "customer": f"c-{number % CUSTOMERS}", "test": test}
        event = f"{number}-{test}".encode()
        self.feed.produce(f"{self.ns}-orders", json.dumps(value).encode(), b"x", headers=[("event", event)])

    def payment(self, number: int, part: int, type: str = "paid") -> None:
        attributes = {"specversion": "1.0", "id": f"{number}-{part}-{type}", "source": "/bank", "type": type}
        headers = [*((f"ce_{name}", value.encode()) for name, value in attributes.items())]
        value = json.dumps({"order": f"o-{number}", "amount": number + part}).encode()
        self.feed.produce(f"{self.ns}-payments", value, b"p", headers=[*headers, ("content-type", b"application/json")])

    def put(self, numbers: range) -> None:
        """Each record twice, a test order, and an event that is no payment."""
        for number in numbers:
            self.order(number, test=True)
            for _ in range(2):
                self.order(number)
            for part in range(2):
                self.payment(number, part, "asked")
                for _ in range(2):
                    self.payment(number, part)
        assert self.feed.flush(60) == 0

    def read(self) -> int:
        """The groups that the history tells of, by their ids."""
        history, dead = self.readers
        self.dead += dead.consume(1_000, 0.1)
        for message in history.consume(1_000, 0.1):
            self.ended[dict(message.headers())["sluicegate-id"]] = json.loads(message.value())
        return len(self.ended)

    def kill(self, times: int) -> None:
        """All worker processes at once."""
        for pid in self.run.pids(AGENTS * times)[-AGENTS:]:
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self.run.close()
        for consumer in self.readers:
            consumer.close()
        for name in ("customers", "settled"):
            self.ask(f"drop table if exists NS_{name}")
        self.engine.dispose()
        print(*self.run.lines[-10:], *self.run.noise[-10:], sep="\n")


@pytest.fixture(params=["event", "wall"])
def shop(request: pytest.FixtureRequest, kafka: str, ns: str, postgres_url: str, tmp_path: Path) -> Iterator[Shop]:
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "payments", "ended", "dead")))
    made = Shop(postgres_url, kafka, ns, tmp_path, request.param)
    yield made
    made.close()


def test_each_order_is_settled_once(shop: Shop) -> None:
    half = ORDERS // 2
    shop.put(range(half))
    wait_until(lambda: shop.settled, 90, "the first rows")
    shop.kill(1)
    shop.put(range(half, ORDERS))
    wait_until(lambda: len(shop.settled) >= half + 1, 120, "a row after the kill")
    shop.kill(2)
    wait_until(lambda: len(shop.settled) >= ORDERS, 120, "a row of each order", pause=0.5)
    wanted = [(f"o-{n}", f"tier {n % CUSTOMERS % 3}", 2 * n + 1) for n in range(ORDERS)]
    assert Counter(map(tuple, shop.settled)) == Counter(wanted)
    wait_until(lambda: shop.read() >= ORDERS, 60, "a message of the history for each order")
    assert Counter(result["key"] for result in shop.ended.values()) == Counter(f"o-{n}" for n in range(ORDERS))
    assert {result["count"] for result in shop.ended.values()} == {3}
    assert shop.dead == []
