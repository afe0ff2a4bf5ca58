"""The handlers that are measured; the hand-written loops call the same functions.

Each says on stderr when it was called for the last of BENCH_RECORDS messages: the moment, and the sum of what it saw.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from zlib import crc32

import msgspec
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, text

from sluicegate.connectors.sessions import SqlSession

ORDERS = Table(
    "bench_orders", MetaData(), Column("id", Text, primary_key=True), Column("key", Text), Column("amount", Integer)
)
INSERT = insert(ORDERS)
# 500 rows a statement, client CPU per row on a busy machine: 4 µs; executemany of psycopg 21, of SQLAlchemy 29, a value
# list 78, one by one 149. COPY takes 2, but knows no `on conflict`.
INSERT_ALL = text(
    "insert into bench_orders select * from unnest(cast(:ids as text[]), cast(:keys as text[]), cast(:amounts as "
    "integer[]))"
)


class Order(msgspec.Struct, gc=False):
    id: str
    key: str
    amount: int


class Tally:
    """Counts `most` messages in this process."""

    def __init__(self, most: int) -> None:
        self.most, self.seen, self.total = most, 0, 0

    def add(self, amount: int) -> None:
        self.seen += 1
        self.total += amount
        if self.seen == self.most:
            document = {
                "event": "handler.last",
                "at": time.monotonic(),
                "cpu": time.process_time(),
                "total": self.total,
            }
            print(json.dumps(document), file=sys.stderr, flush=True)


FAILING = int(os.environ.get("BENCH_FAILING", "0"))
tally = Tally(int(os.environ.get("BENCH_RECORDS", "0")))


def count(value: Order) -> None:
    tally.add(value.amount)


def answer(value: Order, send: Callable[[object], None]) -> None:
    tally.add(value.amount)
    send({"id": value.id, "amount": value.amount})


def failing(number: int, rate: int) -> bool:
    """Does the handler raise for the record of this number, at so many of 100?"""
    return crc32(b"%d" % number) % 100 < rate


def sometimes(value: Order, send: Callable[[object], None]) -> None:
    if failing(int(value.id.rpartition("-")[2]), FAILING):
        raise ValueError("this order never works")
    send({"id": value.id, "amount": value.amount})


def enter(value: Order, session: SqlSession) -> None:
    tally.add(value.amount)
    session.connection.execute(INSERT, {"id": value.id, "key": value.key, "amount": value.amount})


def enter_together(value: Order, together: Callable[[Callable[..., None], object], None]) -> None:
    tally.add(value.amount)
    together(insert_all, value)


def insert_all(orders: Sequence[Order], session: SqlSession) -> None:
    columns = {
        "ids": [order.id for order in orders],
        "keys": [order.key for order in orders],
        "amounts": [order.amount for order in orders],
    }
    session.connection.execute(INSERT_ALL, columns)
