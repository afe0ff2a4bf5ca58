"""The store as a library: the programs of examples/library and the code of docs/library.md, run on the stores."""

import json
import re
import runpy
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymongo
import pytest

from examples.library import cron, intake, web
from sluicegate.connectors import open_store
from sluicegate.connectors.mongodb import connection as mongodb
from tests.contracts.outbox.conftest import place, store, store_url  # noqa: F401
from tests.contracts.outbox.given import Store
from tests.contracts.sql import execute

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
TABLE = "create table if not exists orders (id varchar(50) primary key, customer varchar(50), amount integer)"
PLACING = pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mariadb", "mongodb"], indirect=True)


def asked(url: str, statement: str) -> list[Any]:
    if url.startswith("sqlite:"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
            return db.execute(statement).fetchall()
    return list(execute(url, statement))


def orders(url: str) -> list[tuple[str, int]]:
    if url.startswith("mongodb"):
        with pymongo.MongoClient(url) as client:
            documents = client.get_default_database(mongodb.DATABASE)["orders"].find().sort("_id")
            return [(order["_id"], order["amount"]) for order in documents]
    return [tuple(row) for row in asked(url, "select id, amount from orders order by id")]


@pytest.fixture
def service(store: Store, store_url: str) -> Iterator[str]:  # noqa: F811
    """Its address."""
    on_mongodb = store_url.startswith("mongodb")
    if not on_mongodb:
        asked(store_url, TABLE)
        asked(store_url, "delete from orders")
    made = web.service(store, web.place_in_mongodb if on_mongodb else web.place_in_sql, 0)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    thread.join()
    made.server_close()


def post(address: str, **order: Any) -> int:
    try:
        with urllib.request.urlopen(address, json.dumps(order).encode(), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@PLACING
def test_a_web_service_writes_an_order_and_its_message_or_neither(store: Store, store_url: str, service: str) -> None:  # noqa: F811
    assert [post(service, id=f"o-{number}", customer="ann", amount=number) for number in (1, 2)] == [201, 201]
    store.outbox.drop(["placed-o-2"])
    assert post(service, id="o-2", customer="ann", amount=77) == 409
    assert orders(store_url) == [("o-1", 1), ("o-2", 2)]
    assert [(row.message.id, row.message.key, row.state) for row in store.outbox.find()] == [
        ("placed-o-1", b"ann", "pending")
    ]


@pytest.mark.parametrize("function", [web.place_in_sql, web.place_in_mongodb])
def test_writing_both_takes_at_most_six_lines(function: Any) -> None:
    text = (ROOT / "examples" / "library" / "web.py").read_text(encoding="utf-8")
    [body] = re.findall(rf"def {function.__name__}\(.*\n((?:    .*\n)+)", text)
    assert len(body.splitlines()) <= 6


def test_a_cron_job_inserts_each_timeout_once(store: Store) -> None:  # noqa: F811
    assert cron.remind(store, "2026-11-30", ["o-1", "o-2"]) == 2
    assert cron.remind(store, "2026-11-30", ["o-1", "o-2", "o-3"]) == 1
    mine = [timeout for name in ("o-1", "o-2", "o-3") for timeout in store.timeouts.find(owner=name)]
    assert [(timeout.destination, timeout.key) for timeout in mine] == [
        ("reminders", key) for key in (b"o-1", b"o-2", b"o-3")
    ]
    assert {timeout.due_at for timeout in mine} == {datetime(2026, 12, 1, 9, tzinfo=UTC)}
    for timeout in mine:
        store.timeouts.cancel(timeout.id)


def test_a_script_inserts_each_line_into_a_buffer_once(store: Store) -> None:  # noqa: F811
    lines = [json.dumps({"id": f"o-{number}", "customer": "ann"}) for number in range(3)]
    store.buffer.remove_all("orders")
    assert intake.take_in(store, lines[:2]) == (2, 0)
    assert intake.take_in(store, lines) == (1, 2)
    assert [(entry.correlation_id, entry.group) for entry in store.buffer.get_data("orders")] == [
        (f"o-{n}", "ann") for n in range(3)
    ]
    store.buffer.remove_all("orders")


def test_the_code_of_the_document_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT, re.S):
        Path("block.py").write_text(block, encoding="utf-8")
        runpy.run_path("block.py")["store"].close()
    made: Store = open_store("sqlite:///shop.db")
    rows = made.outbox.find()
    assert rows[0].message.id == "placed-o-1"
    assert (rows[1].message.topic, rows[1].message.value, len(rows)) == ("totals", b"1", 2)
    assert (made.timeouts.count(), made.buffer.count("orders")) == (0, 0)
    with sqlite3.connect("shop.db") as db:
        assert db.execute("select id from orders").fetchall() == [("o-1",)]
    made.close()
