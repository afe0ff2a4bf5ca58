"""ns per record of the loops that add records to groups, on messages that were just consumed, as in the worker's loop.

    python -m tests.bench.hotpath [--records 1000000] [--passes 3] [--only WORD]

CPU time of the calling thread around each batch of 250; commits are imitated every 10,000 records. The parts above are
what any loop pays. The tenth percentile of all batches is the figure that others on the machine disturb least; "loop"
is the body of the tuned loop.
"""

import argparse
import gc
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import groupby
from math import inf
from statistics import quantiles
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from sluicegate.schemas import codec
from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    Correlation,
    DataDeadline,
    Destination,
    Let,
    Reducer,
    Until,
    Window,
)
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import fill, taken
from sluicegate.streams.cli.child import COLLECTIONS
from sluicegate.streams.windows.opening import accept_into, groups_of
from tests.bench import load
from tests.bench.loop import Order
from tests.bench.table import aligned
from tests.servers import Kafka
from tests.servers.shared import open_server

BATCH = 250
COMMIT = 10_000
TOPIC = "orders"
CONSUME = f"- consume({BATCH - 1}, 0)"
NOW = 1_700_000_000.0

Take = Callable[[int, Sequence[Any]], None]
"""Called with a partition's number and records of it."""

COUNT, SUM, MAX = Reducer("n", "count"), Reducer("sum", "sum", "amount"), Reducer("max", "max", "amount")
HOUR = Window(3600.0, max_ahead=inf)  # of the records' timestamps, which are after NOW
HOPPING = Window(3600.0, max_ahead=inf, kind="hopping", every=300.0)
SESSION = Window(1800.0, max_ahead=inf, kind="session")
SLIDING = Window(1.0, max_ahead=inf, kind="sliding", grace=1.0)
LAST = Window(0.0, max_ahead=inf, kind="sliding", grace=1.0, last=100)
CALENDAR = Window(90_000.0, max_ahead=inf, kind="calendar", calendar="day", zone="Europe/Vienna")
J1 = Aggregation(count=100, since_first=600.0, compute=(COUNT, SUM, MAX))
AFTER = DataDeadline(after="amount + 600", unit="s")
TWICE = (COUNT, Reducer("sum", "sum", "twice"), Reducer("max", "max", "twice"))
RULES = {
    "count only": Aggregation(count=100, compute=(COUNT,)),
    "count, sum, max of one field (inline)": J1,
    "the same, key from a field": Aggregation(key="key", count=100, since_first=600.0, compute=(COUNT, SUM, MAX)),
    "the same, timeout since last": Aggregation(count=100, since_last=600.0, compute=(COUNT, SUM, MAX)),
    "the same, until": Aggregation(count=100, until=Until("id", "none"), compute=(COUNT, SUM, MAX)),
    "the same, until an expression": Aggregation(count=100, until="group.sum >= 1000000000", compute=(COUNT, SUM, MAX)),
    "a leg of a correlation": Aggregation(
        until="has(group.key) && has(group.none)",
        compute=(Reducer("key", "first", "key"), Reducer("none", "first", "none")),
        on_missing="ignore",
        correlation=Correlation(),
    ),
    "the same, on_missing: ignore": Aggregation(count=100, on_missing="ignore", compute=(COUNT, SUM, MAX)),
    "the same, in tumbling windows": Aggregation(count=100, window=HOUR, compute=(COUNT, SUM, MAX)),
    "the same, in windows of a calendar (days)": Aggregation(count=100, window=CALENDAR, compute=(COUNT, SUM, MAX)),
    "the same, in hopping windows (1 h by 5 min)": Aggregation(window=HOPPING, compute=(COUNT, SUM, MAX)),
    "the same, in sliding windows (1 s)": Aggregation(window=SLIDING, compute=(COUNT, SUM, MAX)),
    "the same, in windows of the last 100": Aggregation(window=LAST, compute=(COUNT, SUM, MAX)),
    "the same, in sessions": Aggregation(window=SESSION, compute=(COUNT, SUM, MAX)),
    "sum, and last of another field": Aggregation(count=100, compute=(COUNT, SUM, Reducer("last", "last", "id"))),
    "sum, first and last": Aggregation(
        count=100, compute=(SUM, Reducer("first", "first", "id"), Reducer("last", "last", "id"))
    ),
    "collect": Aggregation(count=100, compute=(COUNT, Reducer("rows", "collect"))),
    "collect, sum and max": Aggregation(count=100, compute=(SUM, MAX, Reducer("rows", "collect"))),
    "collect of a field": Aggregation(count=100, compute=(COUNT, Reducer("ids", "collect", "id"))),
    "distinct": Aggregation(count=100, compute=(COUNT, Reducer("ids", "distinct", "id"))),
}
AGENTS = {name: Agent("bench", (TOPIC,), rule, Destination("out"), "dead") for name, rule in RULES.items()}
AGENTS |= {
    f"the same, {name}": Agent("bench", (TOPIC,), rule, Destination("out"), "dead", where=where, let=lets)
    for name, rule, where, lets in (
        ("where of comparisons", J1, 'amount >= 100 && id != "none"', ()),
        ("where that computes", J1, "amount * 2 + 7 > 107 && size(id) == 10", ()),
        ("where of the key", J1, 'message.key != "none"', ()),
        ("where of a function of a computed field", J1, 'string(twice) != "7"', (Let("twice", "amount * 2 + 1"),)),
        (
            "where of a text made of a computed field",
            J1,
            '!string(twice).endsWith("x")',
            (Let("twice", "amount * 2 + 1"),),
        ),
        ("over a computed field", replace(J1, compute=TWICE), "", (Let("twice", "amount * 2 + 1"),)),
        ("a deadline from the data", replace(J1, since_first=None, deadline=AFTER), "", ()),
    )
}


SLIDING_AGENT = AGENTS["the same, in sliding windows (1 s)"]
AGENTS["the same, in sliding windows (1 s), having is never true"] = replace(SLIDING_AGENT, having="n > 1000")


class Amount(msgspec.Struct, gc=False):
    amount: int | float


class Part(NamedTuple):
    """What is timed (`take`), and what is done after every COMMIT records, untimed."""

    take: Take
    commit: Callable[[], None] = lambda: None


def parts() -> dict[str, Part]:
    """What any loop over these records pays."""
    decode = msgspec.json.Decoder(Amount).decode
    ordered = msgspec.json.Decoder(Order).decode
    drain = deque(maxlen=0).extend
    groups: dict[str, list[int]] = {}

    def decoded(_: int, records: Sequence[Any]) -> None:
        for record in records:
            decode(record.value())

    def looped(_: int, records: Sequence[Any]) -> None:
        for record in records:
            order = ordered(record.value())
            group = groups.get(order.key)
            if group is None:
                group = groups[order.key] = [order.amount]
            else:
                group.append(order.amount)
            if len(group) >= load.PER_KEY:
                sum(group)
                del groups[order.key]

    return {
        "- value()": Part(lambda _, records: drain(map(Message.value, records))),
        "- key()": Part(lambda _, records: drain(map(Message.key, records))),
        "- partition()": Part(lambda _, records: drain(map(Message.partition, records))),
        "- value() and decoding of one number": Part(decoded),
        "loop": Part(looped),
    }


def accepting(agent: Agent) -> Part:
    """`where` and `accept` with fresh groups of four partitions."""
    rule = Rule(agent, codec("json"))
    partitions = [groups_of(rule) for _ in range(load.PARTITIONS)]

    def commit() -> None:
        for groups in partitions:
            groups.changes()
            groups.events.clear()

    def take(number: int, records: Sequence[Any]) -> None:
        groups = partitions[number]
        if agent.aggregation is None or agent.aggregation.window is None:
            fill(groups, records, NOW)
        else:
            accept_into(groups, taken(groups, records), NOW)

    return Part(take, commit)


def batches(consumer: Consumer, records: int) -> Iterator[tuple[list[Any], float]]:
    """All records once more, as the worker gets them, each batch with the ns per record that consuming it took."""
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(load.PARTITIONS)])
    while records > 0:
        first = consumer.poll(10)
        if first is None:
            raise RuntimeError(f"{records} records are missing")
        begin = time.thread_time_ns()
        batch = [first, *consumer.consume(BATCH - 1, 0)]
        spent = time.thread_time_ns() - begin
        records -= len(batch)
        yield batch, spent / len(batch)


def measure(consumer: Consumer, part: Part, records: int) -> tuple[list[float], list[float]]:
    """ns per record of consuming and of `part`, batch by full batch, once over the topic."""
    consuming, taking, pending = list[float](), list[float](), 0
    for batch, consumed in batches(consumer, records):
        runs = [(number, list(run)) for number, run in groupby(batch, Message.partition)]
        begin = time.thread_time_ns()
        for number, run in runs:
            part.take(number, run)
        if len(batch) == BATCH:
            taking.append((time.thread_time_ns() - begin) / BATCH)
            consuming.append(consumed)
        pending += len(batch)
        if pending >= COMMIT:
            part.commit()
            pending = 0
    return consuming, taking


def main() -> None:
    gc.set_threshold(*COLLECTIONS)
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hotpath")
    parser.add_argument("--records", type=int, default=1_000_000, help="a multiple of 100")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--only", default="", help="part of a row's name")
    options = parser.parse_args()
    with ExitStack() as opened:
        server = open_server(Kafka(heap="512m"))
        opened.callback(server.destroy)
        load.fill(server.url, TOPIC, options.records)
        consumer = Consumer(
            {
                "bootstrap.servers": server.url,
                "group.id": TOPIC,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.queue.backoff.ms": 5,
            }
        )
        opened.callback(consumer.close)
        print(table(consumer, options))


def table(consumer: Consumer, options: argparse.Namespace) -> str:
    """Every row in turn, so many times."""
    makers: dict[str, Callable[[], Part]] = {name: partial(dict.__getitem__, parts(), name) for name in parts()}
    makers |= {f"accept: {name}": partial(accepting, agent) for name, agent in AGENTS.items()}
    results: dict[str, list[float]] = {CONSUME: []}
    for _ in range(options.passes):
        for name, make in makers.items():
            if options.only in name:
                consuming, taking = measure(consumer, make(), options.records)
                results[CONSUME] += consuming
                results.setdefault(name, []).extend(taking)
    lines = [(name, *(f"{part:.0f}" for part in quantiles(result, n=20)[1::8])) for name, result in results.items()]
    return aligned([("ns per record", "10 %", "median", "90 %"), *lines])


if __name__ == "__main__":
    main()
