"""`scope: shared` with a lookup in a table and one in a topic, on real brokers and stores, while workers are killed."""

import json
import signal
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from tests.integration.test_commands_live import sluicegate
from tests.integration.test_connect_headers import messages
from tests.waiting import wait_until

FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", topic.metadata.refresh.interval.ms: 1000}}
store: {store}
auto_migrate: true
http: false
dead_letters: {ns}-dead
agents:
  baskets:
    from: {ns}-in
    scope: shared
    aggregate: {{count: 4, compute: {{spent: {{sum: amount}}, ids: {{collect: id}}}}}}
    lookup:
      customer: {{table: customers_{table}, column: id, key: key, fields: [name]}}
      region: {{topic: {ns}-regions, key: key, fields: [code], missing: {{wait: 2m}}}}
    to: {{topic: {ns}-out}}
"""
CUSTOMERS, RECORDS = 8, 160


@pytest.fixture(params=["sqlite", "postgres_url"])
def file(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str) -> str:
    table = ns.replace("-", "_")
    path, store = tmp_path / "app.yaml", f"sqlite:///{tmp_path}/state.db"
    rows = [(f"c{number}", f"name {number}") for number in range(CUSTOMERS)]
    create, insert = (
        f"create table customers_{table} (id text primary key, name text)",
        f"insert into customers_{table}",
    )
    if request.param == "sqlite":
        with sqlite3.connect(tmp_path / "state.db") as database:
            database.execute(create)
            database.executemany(f"{insert} values (?, ?)", rows)
    else:
        store = request.getfixturevalue(request.param)
        with psycopg.connect(store) as server:
            server.execute(create)
            server.cursor().executemany(f"{insert} values (%s, %s)", rows)
    path.write_text(FILE.format(ns=ns, kafka=kafka, store=store, table=table))
    sluicegate("topics", str(path), "--create", "--partitions", "1", "--json")
    return str(path)


def test_each_group_has_the_rows_of_its_key_though_a_worker_is_killed(running: Any, kafka: str, ns: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    regions = range(CUSTOMERS)

    def tell(number: int) -> None:
        producer.produce(f"{ns}-regions", json.dumps({"code": number}).encode(), f"c{number}".encode())

    tell(0)
    assert producer.flush(30) == 0
    first = running()
    for number in range(RECORDS):
        value = {"id": number, "amount": 1}
        producer.produce(f"{ns}-in", json.dumps(value).encode(), f"c{number % CUSTOMERS}".encode())
    assert producer.flush(30) == 0
    wait_until(lambda: messages(kafka, f"{ns}-out"), 60, "the groups of the region that is known")
    first.signal(signal.SIGKILL)
    for number in regions[1:]:
        tell(number)
    assert producer.flush(30) == 0
    running()

    def results() -> list[Any]:
        made = {dict(message.headers())["sluicegate-id"]: message.value() for message in messages(kafka, f"{ns}-out")}
        return [json.loads(value) for value in made.values()]

    wait_until(lambda: len(results()) >= RECORDS // 4, 120, "all results")
    for result in results():
        number = int(result["key"][1:])
        assert (result["customer"], result["region"]) == ({"name": f"name {number}"}, {"code": number})
    assert sorted(id for result in results() for id in result["ids"]) == list(range(RECORDS))
