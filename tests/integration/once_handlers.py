"""Handlers for tests/integration/test_written_once.py, copied beside the file under test as `once_handlers`."""

import contextlib
from collections import Counter
from typing import Any
from zlib import crc32

from sluicegate.streams.handlers import BadItems, Batch, Message, Outage

calls: Counter[int] = Counter()


def failing(number: int, percent: int) -> bool:
    return crc32(b"%d" % number) % 100 < percent


def number_of(message: Message) -> int:
    return int(message.value["n"])


def send_0(message: Message, send: Any) -> None:
    send(message.value)


def send_10(message: Message, send: Any) -> None:
    raising(message, send, 10)


def send_50(message: Message, send: Any) -> None:
    raising(message, send, 50)


def raising(message: Message, send: Any, percent: int) -> None:
    if failing(number_of(message), percent):
        raise ValueError("this message never works")
    send(message.value)


def away_0(message: Message, send: Any) -> None:
    away(message, send, 0)


def away_10(message: Message, send: Any) -> None:
    away(message, send, 10)


def away_50(message: Message, send: Any) -> None:
    away(message, send, 50)


def away(message: Message, send: Any, percent: int) -> None:
    """The system that the handler needs is away once, in the middle."""
    number = number_of(message)
    calls[number] += 1
    if number in (70, 140) and calls[number] == 1:
        raise Outage("away")
    raising(message, send, percent)


def refused_0(message: Message, session: Any, send: Any) -> None:
    refused(message, session, send, 0)


def refused_10(message: Message, session: Any, send: Any) -> None:
    refused(message, session, send, 10)


def refused_50(message: Message, session: Any, send: Any) -> None:
    refused(message, session, send, 50)


def refused(message: Message, session: Any, send: Any, percent: int) -> None:
    """The store refuses the whole transaction at its end, and nothing says which message is the cause."""
    if failing(number_of(message), percent):
        spoil(session)
    send(message.value)


def spoil(session: Any) -> None:
    """As a handler that goes on after an error of the server."""
    if hasattr(session, "pipeline"):
        session.pipeline.execute_command("HSET", session.key("spoilt"), "a")  # an argument is missing
    elif hasattr(session, "database"):
        from pymongo.errors import PyMongoError

        with contextlib.suppress(PyMongoError):
            session.database["spoilt"].update_one({}, {"$nothing": 1}, upsert=True, session=session.client_session)
    else:
        from sqlalchemy import text
        from sqlalchemy.exc import SQLAlchemyError

        with contextlib.suppress(SQLAlchemyError):
            session.connection.execute(text("select nothing from nowhere"))


def groups_0(batch: Batch, send: Any) -> None:
    send(batch.value)


def groups_10(batch: Batch, send: Any) -> None:
    without_bad(batch, send, 10)


def groups_50(batch: Batch, send: Any) -> None:
    without_bad(batch, send, 50)


def without_bad(batch: Batch, send: Any, percent: int) -> None:
    bad = {index: "bad" for index, item in enumerate(batch.value["all"]) if failing(item["n"], percent)}
    if bad:
        raise BadItems(bad)
    send(batch.value)


def contended_0(message: Message, session: Any, send: Any) -> None:
    contended(message, session, send, 0)


def contended_10(message: Message, session: Any, send: Any) -> None:
    contended(message, session, send, 10)


def contended_50(message: Message, session: Any, send: Any) -> None:
    contended(message, session, send, 50)


def contended(message: Message, session: Any, send: Any, percent: int) -> None:
    """All agents count in the same few documents of MongoDB, each in an order of its own."""
    number = number_of(message)
    place = {"_id": f"{message.topic}-{number * (percent + 1) % 7}"}
    session.database["contended"].update_one(place, {"$inc": {"calls": 1}}, upsert=True, session=session.client_session)
    if failing(number, percent):
        raise ValueError("this message never works")
    send(message.value)
