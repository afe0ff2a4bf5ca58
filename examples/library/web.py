"""A web service on a store: each order and the message that tells of it are in one transaction, both or neither.

    python -m examples.library.web postgresql://localhost/shop 8080
    curl -d '{"id": "o-1", "customer": "ann", "amount": 40}' localhost:8080

The table is the application's: create table orders (id varchar(50) primary key, customer varchar(50), amount integer). `sluicegate run`
on the same store sends the messages.
"""

import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pymongo.errors import DuplicateKeyError
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from connectors import open_store
from streams import OutboxMessage

INSERT = text("insert into orders (id, customer, amount) values (:id, :customer, :amount)")


def placed(order: dict[str, Any]) -> OutboxMessage:
    return OutboxMessage("orders-placed", key=order["customer"].encode(), value=json.dumps(order).encode(), id=f"placed-{order['id']}")


def place_in_sql(store: Any, order: dict[str, Any]) -> None:
    with store.transaction() as session:
        session.connection.execute(INSERT, order)
        store.outbox.add(session, [placed(order)])


def place_in_mongodb(store: Any, order: dict[str, Any]) -> None:
    with store.transaction() as session:
        document = {"_id": order["id"], "customer": order["customer"], "amount": order["amount"]}
        session.database["orders"].insert_one(document, session=session.client_session)
        store.outbox.add(session, [placed(order)])


def service(store: Any, place: Callable[[Any, dict[str, Any]], None], port: int) -> ThreadingHTTPServer:
    """Answers POST with 201, and with 409 when the order is there already."""

    class Orders(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                place(store, order)
                self.send_response(201)
            except (IntegrityError, DuplicateKeyError):
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
    service(store, place_in_mongodb if url.startswith("mongodb") else place_in_sql, int(port)).serve_forever()
