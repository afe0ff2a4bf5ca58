"""Handlers of payments, for a file under test: copied beside it as `chaos_books`, with `books.json` that says what they
write to.

Each payment, or group of payments, makes an entry, moves a balance and sends a message. No key of the entries is
unique: a repeat shows.
"""

import json
import multiprocessing
import os
import signal
import time
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import text

from sluicegate.connectors.sessions import MongoSession, RedisSession, SqlSession
from sluicegate.streams.handlers import Batch, Message, Outage

HERE = Path(__file__).parent
GIVEN = json.loads((HERE / "books.json").read_text()) if (HERE / "books.json").exists() else {}

Entry = dict[str, Any]


def book(message: Message, session: Any, send: Any) -> None:
    entry = payment(message)
    enter(session, entry)
    send(entry)


def check(message: Message) -> None:
    """After `book`: does what the payment says, so that its entry must go again."""
    misbehave(message.value)


def book_batch(batch: Batch, session: Any, send: Any) -> None:
    fire = batch.fire
    entry = {
        "account": batch.key,
        "amount": batch.value["total"],
        "count": batch.count,
        "first": fire.first,
        "last": fire.last,
    }
    enter(session, entry)
    send(entry)


def forward(message: Message, send: Any) -> None:
    """No store of its own: only the message."""
    send(payment(message))


def book_by_id(message: Message, id: str, send: Any) -> None:
    """In a transaction of its own (PostgreSQL); what has an entry under this id has its effects, but may not have been
    sent."""
    entry = payment(message)
    enter_apart(entry, id)
    send(entry)


def book_apart(message: Message, send: Any) -> None:
    """As `book_by_id`, and nobody looks at the id."""
    entry = payment(message)
    enter_apart(entry, f"{time.time_ns()}-{os.urandom(8).hex()}")
    send(entry)


def book_unless_known(message: Message, id: str, send: Any) -> None:
    """As `book_by_id`, but what is known is taken for sent."""
    entry = payment(message)
    if enter_apart(entry, id):
        send(entry)


def payment(message: Message) -> Entry:
    """Raises for a payment without an account or an amount."""
    if message.key is None or type(message.value["v"]) is not int:
        raise ValueError("a payment needs an account and an amount")
    return {
        "account": message.key,
        "amount": message.value["v"],
        "count": 1,
        "first": message.offset,
        "last": message.offset,
    }


def misbehave(value: dict[str, Any]) -> None:
    match value.get("do"):
        case "raise":
            raise RuntimeError("this payment is refused")
        case "raise-until-corrected":
            if not (HERE / "corrected").exists():
                raise RuntimeError("this payment is refused")
        case "outage":
            if not (HERE / "back").exists():
                raise Outage("the bank does not answer")
        case "hang":
            time.sleep(value["seconds"])
        case "hang-once":
            if not (HERE / "hung").exists():
                (HERE / "hung").touch()
                time.sleep(value["seconds"])
        case "exit":
            os._exit(1)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segv":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "fork":
            _fork()
        case "memory":
            _fill_memory()
        case "memory-until-killed":
            _outgrow(Path(value["group"]))


def _fork() -> None:
    """A child that inherits every connection of this process."""
    child = multiprocessing.get_context("fork").Process(target=os.getpid)
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"the child ended with {child.exitcode}")


def _fill_memory() -> None:
    """Until the limit that is set here, as a container sets one: the interpreter is told, and raises."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_size() + 64 * 1024 * 1024, before[1]))
    kept = []
    try:
        while True:
            kept.append(bytearray(8 * 1024 * 1024))
    finally:
        kept.clear()
        resource.setrlimit(resource.RLIMIT_AS, before)


def _outgrow(joining: Path) -> None:
    """In a cgroup with a limit, as a container is: no interpreter is told, the kernel ends the process."""
    joining.write_text(str(os.getpid()))
    kept = []
    while True:
        kept.append(os.urandom(8 * 1024 * 1024))


def _size() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def enter(session: Any, entry: Entry) -> None:
    name, account, amount, line = GIVEN["name"], entry["account"], entry["amount"], json.dumps(entry)
    match session:
        case SqlSession(connection):
            connection.execute(text(f"insert into entries_{name} (line) values (:line)"), {"line": line})
            settings = {"amount": amount, "account": account}
            moved = connection.execute(
                text(f"update balances_{name} set amount = amount + :amount where account = :account"), settings
            )
            if not moved.rowcount:
                connection.execute(
                    text(f"insert into balances_{name} (account, amount) values (:account, :amount)"), settings
                )
        case MongoSession(client_session, database):
            database[f"entries_{name}"].insert_one({"line": line}, session=client_session)
            database[f"balances_{name}"].update_one(
                {"_id": account}, {"$inc": {"amount": amount}}, upsert=True, session=client_session
            )
        case RedisSession(pipeline, _):
            pipeline.rpush(f"{name}:entries", line)
            pipeline.incrby(f"{name}:balance:{account}", amount)
        case _:
            raise TypeError(f"no session to write through: {session}")


@cache
def _own_connection() -> psycopg.Connection[Any]:
    return psycopg.connect(GIVEN["store"], autocommit=True)


def enter_apart(entry: Entry, id: str) -> bool:
    """The entry and its balance under a unique id, at once and whatever the engine does next; False when it was
    there."""
    name, db = GIVEN["name"], _own_connection()
    with db.transaction():
        known = db.execute(f"insert into ids_{name} (id) values (%s) on conflict (id) do nothing", (id,))
        if not known.rowcount:
            return False
        db.execute(f"insert into entries_{name} (line) values (%s)", (json.dumps(entry),))
        upsert = "on conflict (account) do update set amount = b.amount + excluded.amount"
        values = (entry["account"], entry["amount"])
        db.execute(f"insert into balances_{name} as b (account, amount) values (%s, %s) {upsert}", values)
    return True
