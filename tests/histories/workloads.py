"""What the product does in a history, and how that maps to transactions and to a queue.

`lists` (every store)
    An agent collects the records of each key, and a second agent collects the results of the first. Each record is a
    transaction of the first agent: it appends its element to the list of its key, and reads the list, which is the
    result behind this record (`emit: {count: 1}`). Each result is such a transaction of the second agent, on a list of
    its own. The state lives in the changelog of the partition, so these lists go through commits, fences, restores and
    takeovers. A key has exactly as many records as complete its group: a group that opens twice, or too early, is a
    list that begins anew.

`transactions` (SQLite, PostgreSQL, MariaDB)
    A handler with a session runs several appends and reads over the lists of a partition, in rows of its own table, in
    the store's transaction. The lists are read once more at the end.

`queue` (every store)
    A handler sends two outputs for each record and schedules a timeout; the timeout comes back as a record, and sends a
    third output. Each output is an element of a queue, which a consumer reads that drops what it knows by
    `sluicegate-shard` and `sluicegate-seq`. In `lists` and `transactions` each result is such an element, too.

What is judged: strict serializability. One owner runs the transactions of a partition in the order of its log, behind a
fence, so any two transactions of a partition are ordered, and one that ended before another began comes first. The
process of a transaction is its partition (for the second agent its key, since order is promised for each key only). A
transaction begins when its record is sent and ends when a consumer first reads its result; both are times of one clock.
A record that has no result at the end is an element that was lost.

What is invisible: the isolation of transactions of the application over rows of several partitions, which is the
store's and which the application chooses; and a state that no result shows.
"""

import json
import shutil
import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.chaos.record import Seen
from tests.contracts.sql import execute
from tests.histories.checker.history import Append, Delivery, Element, History, Operation, Outcome, Read, Transaction
from tests.histories.history_handlers import AFTER

PARTITIONS = 4
LENGTH = 12  # elements of a list
OPEN = 6  # lists of a partition that are open at a time
TABLE = "create table history_items (list varchar(40) not null, place integer not null, element integer not null)"


class Sent(NamedTuple):
    """A record of the input; `names` are the elements of the queue that follow from it, with their times."""

    number: int
    partition: int
    key: str
    value: dict[str, Any]
    names: Mapping[str, float]


class Workload:
    """The agents of an app `name`, its records, and the history that its results make."""

    stores: Sequence[str] = ("sqlite", "redis", "postgresql", "mariadb", "mongodb")
    outputs: Sequence[str] = ("out",)
    timeouts = False

    def __init__(self, name: str, seed: int, store: str) -> None:
        self.name, self._random, self.store = name, Random(seed), store

    def agents(self) -> dict[str, Any]:
        raise NotImplementedError

    def prepare(self, folder: Path) -> None:
        """What the app needs beside its file, and in the store."""
        shutil.copy(Path(__file__).with_name("history_handlers.py"), folder)

    def record(self, number: int) -> Sent:
        raise NotImplementedError

    def element(self, record: Seen) -> str:
        """The name of the element that this output is."""
        raise NotImplementedError

    def transactions(self, sent: Mapping[int, tuple[Sent, float]], seen: "Results") -> list[Transaction]:
        return []


Results = Mapping[str, Sequence[tuple[Seen, float]]]
"""Of each element its deliveries, with their times, that a receiver keeps which drops what it knows."""


class Lists(Workload):
    outputs = ("out", "further")

    def agents(self) -> dict[str, Any]:
        topics = (("lists", "in", "out", "e"), ("further", "out", "further", "newest"))
        return {
            agent: {
                "from": f"{self.name}.{source}",
                "aggregate": {"count": LENGTH, "compute": {"all": {"collect": field}, "newest": {"last": field}}},
                "emit": {"count": 1},
                "to": {"topic": f"{self.name}.{target}"},
            }
            for agent, source, target, field in topics
        }

    def record(self, number: int) -> Sent:
        partition, place = number % PARTITIONS, number // PARTITIONS
        key = f"{partition}.{place // (LENGTH * OPEN)}.{place % OPEN}"
        return Sent(number, partition, key, {"e": number}, {f"out/{number}": 0.0, f"further/{number}": 0.0})

    def element(self, record: Seen) -> str:
        return f"{record.topic.rpartition('.')[2]}/{json.loads(record.value or b'{}')['newest']}"

    def transactions(self, sent: Mapping[int, tuple[Sent, float]], seen: Results) -> list[Transaction]:
        """A second result of a record would be a second read."""
        made = []
        for topic in self.outputs:
            for number, (record, begin) in sent.items():
                key = f"{topic}:{record.key}"
                process = f"{topic}/{record.partition if topic == 'out' else record.key}"
                results = seen.get(f"{topic}/{number}", ())
                if not results:
                    made.append(Transaction((Append(key, number),), "info", process, begin, begin))
                for place, (result, at) in enumerate(results):
                    read = Read(key, tuple(json.loads(result.value or b"{}")["all"]))
                    operations = (read,) if place else (Append(key, number), read)
                    made.append(Transaction(operations, "ok", "" if place else process, begin, at))
        return made


class Transactions(Workload):
    stores = ("sqlite", "postgresql", "mariadb")

    def agents(self) -> dict[str, Any]:
        agent = {"from": f"{self.name}.in", "handler": "history_handlers:transact", "session": True}
        return {"transactions": agent | {"to": {"topic": f"{self.name}.out"}}}

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        self._rows(TABLE)
        self._rows("create index history_lists on history_items (list)")

    def record(self, number: int) -> Sent:
        partition, generation = number % PARTITIONS, number // (PARTITIONS * LENGTH * OPEN)
        operations: list[list[Any]] = []
        for place in range(self._random.randint(1, 4)):
            key = f"{partition}.{generation}.{self._random.randrange(OPEN)}"
            append = self._random.random() < 0.5
            operations.append(["append" if append else "r", key, 10 * number + place if append else None])
        return Sent(number, partition, str(partition), {"e": number, "txn": operations}, {f"out/{number}": 0.0})

    def element(self, record: Seen) -> str:
        return f"out/{json.loads(record.value or b'{}')['e']}"

    def transactions(self, sent: Mapping[int, tuple[Sent, float]], seen: Results) -> list[Transaction]:
        made = []
        for number, (record, begin) in sent.items():
            result, at = seen.get(f"out/{number}", [(None, begin)])[0]
            texts = json.loads(result.value or b"{}")["txn"] if result else record.value["txn"]
            operations: list[Operation] = [
                Append(key, value) if kind == "append" else Read(key, tuple(value or ())) for kind, key, value in texts
            ]
            outcome: Outcome = "ok" if result else "info"
            made.append(Transaction(tuple(operations), outcome, f"out/{record.partition}", begin, at))
        return [*made, self._at_the_end()]

    def _at_the_end(self) -> Transaction:
        lists: dict[str, list[int]] = {}
        begin = time.time()
        for key, element in self._rows("select list, element from history_items order by list, place, element"):
            lists.setdefault(key, []).append(element)
        reads = tuple(Read(key, tuple(elements)) for key, elements in lists.items())
        return Transaction(reads, "ok", "", begin, time.time())

    def _rows(self, statement: str) -> Sequence[Any]:
        if not self.store.startswith("sqlite:"):
            return execute(self.store, statement)
        with sqlite3.connect(self.store.removeprefix("sqlite:///"), timeout=20) as db:
            rows = db.execute(statement).fetchall()
        db.close()
        return rows


class Queue(Workload):
    timeouts = True

    def agents(self) -> dict[str, Any]:
        agent = {"from": f"{self.name}.in", "handler": "history_handlers:job", "to": {"topic": f"{self.name}.out"}}
        return {"jobs": agent}

    def record(self, number: int) -> Sent:
        partition = number % PARTITIONS
        names = {f"{number}a": 0.0, f"{number}b": 0.0, f"{number}!": AFTER}
        return Sent(number, partition, f"{partition}.{number // PARTITIONS % OPEN}", {"e": number}, names)

    def element(self, record: Seen) -> str:
        return str(json.loads(record.value or b"{}")["e"])


WORKLOADS: dict[str, type[Workload]] = {"lists": Lists, "transactions": Transactions, "queue": Queue}


def history(workload: Workload, sent: Mapping[int, tuple[Sent, float]], came: Sequence[tuple[Seen, float]]) -> History:
    """Of the records that were sent, with their times, and of what a consumer read of the outputs, in its order."""
    results: dict[str, list[tuple[Seen, float]]] = {}
    deliveries: list[Delivery] = []
    known: set[str] = set()
    for record, at in came:
        name, identity = workload.element(record), "#".join(record.number)
        if identity not in known:
            known.add(identity)
            results.setdefault(name, []).append((record, at))
        line = f"{record.topic.rpartition('.')[2]}/{record.partition}"
        deliveries.append(Delivery(name, _key_of(name, record), line, identity, at))
    elements = [
        Element(name, record.key, "ok", begin + after if after else 0.0)
        for record, begin in sent.values()
        for name, after in record.names.items()
    ]
    return History(workload.transactions(sent, results), elements, deliveries)


def _key_of(name: str, record: Seen) -> str:
    """Timeouts have no order."""
    return name if name.endswith("!") else (record.key or b"").decode()
