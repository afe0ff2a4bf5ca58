"""A web service on a store: each order and the message that tells of it are in one transaction, both or neither.

    python -m examples.library.web sqlite:///shop.db 8080
    curl -d '{"id": "o-1", "customer": "ann", "amount": 40}' localhost:8080

The table is the application's: create table orders (id varchar(50) primary key, customer varchar(50), amount integer).
On SQLite this program makes it. `sluicegate run` on the same store sends the messages.
"""

import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sluicegate import OutboxMessage, open_store

INSERT = "insert into orders (id, customer, amount) values (:id, :customer, :amount)"


TABLE = "create table if not exists orders (id varchar(50) primary key, customer varchar(50), amount integer)"


def placed(order: dict[str, Any]) -> OutboxMessage:
    return OutboxMessage(
        "orders-placed", key=order["customer"].encode(), value=json.dumps(order).encode(), id=f"placed-{order['id']}"
    )


def place_in_sql(store: Any, order: dict[str, Any]) -> None:
    from sqlalchemy import text

    with store.transaction() as session:
        session.connection.execute(text(INSERT), order)
        store.outbox.add(session, [placed(order)])


def make_table(store: Any) -> None:
    from sqlalchemy import text

    with store.transaction() as session:
        session.connection.execute(text(TABLE))


def place_in_mongodb(store: Any, order: dict[str, Any]) -> None:
    with store.transaction() as session:
        document = {"_id": order["id"], "customer": order["customer"], "amount": order["amount"]}
        session.database["orders"].insert_one(document, session=session.client_session)
        store.outbox.add(session, [placed(order)])


def taken(place: Callable[[Any, dict[str, Any]], None]) -> type[Exception]:
    """What the store's driver raises for an id that is there already. Only the driver that is used need be
    installed."""
    if place is place_in_mongodb:
        from pymongo.errors import DuplicateKeyError

        return DuplicateKeyError
    from sqlalchemy.exc import IntegrityError

    return IntegrityError


def service(store: Any, place: Callable[[Any, dict[str, Any]], None], port: int) -> ThreadingHTTPServer:
    """Answers POST with 201, and with 409 when the order is there already."""
    there_already = taken(place)

    class Orders(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                place(store, order)
                self.send_response(201)
            except there_already:
                self.send_response(409)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    return ThreadingHTTPServer(("127.0.0.1", port), Orders)


if __name__ == "__main__":
    url, port = sys.argv[1:]
    store = open_store(url)
    store.migrate()
    if url.startswith("sqlite:"):
        make_table(store)
    service(store, place_in_mongodb if url.startswith("mongodb") else place_in_sql, int(port)).serve_forever()
