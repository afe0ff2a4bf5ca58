"""What de-duplication costs: ns per record beside `accept`, bytes per id in memory and in the log, seconds to restore.

    python -m tests.bench.dedupe [--records 500000] [--only ns]

Measured as tests.bench.hotpath does, on the same orders, each with an id of 36 bytes in a header and one of 10 in a
field. The rows take turns of 10,000 records of one topic, so other programs disturb all of them alike. Each row has 100
records of a key.
"""

import argparse
import gc
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import groupby
from statistics import quantiles
from typing import Any

import msgspec
from confluent_kafka import Consumer, Message

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.aggregation.taking import fill
from sluicegate.streams.cli.child import COLLECTIONS
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.receive import ReceivedShards
from tests.bench import load
from tests.bench.hotpath import BATCH, COMMIT, COUNT, MAX, NOW, SUM, TOPIC, Amount, Part, batches, parts
from tests.bench.table import aligned
from tests.servers import Kafka
from tests.servers.shared import open_server

RULE = Aggregation(count=100, since_first=600.0, compute=(COUNT, SUM, MAX))
drain = deque(maxlen=0).extend
HEADER = Deduplication("header", "message-id", max_ids=10_000_000)
FIELD = Deduplication("field", "id", max_ids=10_000_000)


def accepting(dedupe: Deduplication | None, copies: int = 1) -> Part:
    """`accept` with fresh groups of four partitions; `copies` of each record, one after the other."""
    agent = Agent("bench", (TOPIC,), RULE, Destination("out"), "dead", dedupe=dedupe)
    rule, ids = Rule(agent, codec("json")), IdRule(agent, codec("json")) if dedupe else None
    partitions = [(Groups(rule), DuplicateFilter(ids) if ids else None) for _ in range(load.PARTITIONS)]

    def take(number: int, records: Sequence[Any]) -> None:
        groups, deduped = partitions[number]
        if copies > 1:
            records = [record for record in records for _ in range(copies)]
        fill(groups, records, NOW, deduped)

    def commit() -> None:
        for groups, deduped in partitions:
            groups.changes()
            groups.events.clear()
            if deduped:
                deduped.seen.changes(NOW)

    return Part(take, commit)


class Named(Amount, gc=False):
    id: str


def least(by: str) -> Part:
    """The least Python code that drops duplicates: it reads the id, and keeps it for the next records. No id is
    forgotten, or written to a log."""
    known: list[dict[bytes, float]] = [{} for _ in range(load.PARTITIONS)]
    decode = msgspec.json.Decoder(Named).decode

    def by_header(number: int, records: Sequence[Any]) -> None:
        ids = known[number]
        for record in records:
            for header, content in record.headers():
                if header == HEADER.name and content not in ids:
                    ids[content] = NOW

    def by_field(number: int, records: Sequence[Any]) -> None:
        ids = known[number]
        for record in records:
            identity = decode(record.value()).id.encode()
            if identity not in ids:
                ids[identity] = NOW

    return Part(by_header if by == "header" else by_field)


ROWS: dict[str, Callable[[], Part]] = {
    "- headers()": lambda: Part(lambda _, records: drain(map(Message.headers, records))),
    "- ids of headers, each kept": lambda: least("header"),
    "- value() and decoding of one number": lambda: parts()["- value() and decoding of one number"],
    "- the same with an id, each kept": lambda: least("field"),
    "accept": lambda: accepting(None),
    "accept, dedupe by header": lambda: accepting(HEADER),
    "accept, dedupe by field": lambda: accepting(FIELD),
    "accept, dedupe by header, each record twice": lambda: accepting(HEADER, 2),
}


def memory(count: int) -> list[tuple[str, str]]:
    """Ids of 36 bytes as they are held, written and restored."""
    rule = Rule(Agent("bench", (TOPIC,), RULE, Destination("out"), "dead"), codec("json"))

    def fresh() -> tuple[KnownIds, Changelog]:
        return (seen := KnownIds("header:", 3600.0, count), Changelog(Groups(rule), 1, seen))

    seen, log = fresh()
    blobs: list[bytes] = []
    tracemalloc.start()
    for first in range(0, count, BATCH):
        seen.note([b"%036d" % number for number in range(first, first + BATCH)], NOW + first / 1e6)
        blobs += log.entries({}, dict, NOW)[0]
    size = tracemalloc.get_traced_memory()[0] - sum(map(len, blobs))
    tracemalloc.stop()
    begin = time.monotonic()
    fresh()[1].replay(blobs, 1, len(blobs), ReceivedShards(TOPIC))
    restored = time.monotonic() - begin
    kept = sum(map(len, blobs[log.kept[0][0] - 1 :]))
    return [
        ("bytes of memory per id", f"{size / count:.0f}"),
        ("bytes of the log per id", f"{kept / count:.0f}"),
        (f"seconds to restore {count} ids", f"{restored:.2f}"),
    ]


def dealt(consumer: Consumer, rows: dict[str, Part], records: int) -> dict[str, list[float]]:
    """ns per record of each row, batch by full batch."""
    spent: dict[str, list[float]] = {name: [] for name in rows}
    for number_of_batch, (batch, _) in enumerate(batches(consumer, records)):
        turn, place = divmod(number_of_batch, COMMIT // BATCH)
        name = [*rows][turn % len(rows)]
        if place == 0:
            rows[name].commit()
        runs = [(number, list(run)) for number, run in groupby(batch, Message.partition)]
        begin = time.thread_time_ns()
        for number, run in runs:
            rows[name].take(number, run)
        if len(batch) == BATCH:
            spent[name].append((time.thread_time_ns() - begin) / BATCH)
    return spent


def main() -> None:
    gc.set_threshold(*COLLECTIONS)
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dedupe")
    parser.add_argument("--records", type=int, default=500_000, help="of each row, a multiple of 100")
    parser.add_argument("--only", choices=("ns", "memory"))
    options = parser.parse_args()
    if options.only != "ns":
        print(aligned(memory(1_000_000)))
    if options.only == "memory":
        return
    with ExitStack() as opened:
        server = open_server(Kafka(heap="512m"))
        opened.callback(server.destroy)
        many = options.records * len(ROWS)
        load.fill(server.url, TOPIC, many, named=True, per_key=load.PER_KEY * len(ROWS))
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
        spent = dealt(consumer, {name: make() for name, make in ROWS.items()}, many)
    figures = {name: quantiles(row, n=20)[1::8] for name, row in spent.items()}
    lines: list[tuple[str, ...]] = [("ns per record", "10 %", "median", "90 %", "10 % / accept", "median / accept")]
    plain = figures["accept"]
    for name, row in figures.items():
        ratios = (f"{part / base:.2f}" for part, base in zip(row[:2], plain, strict=False))
        lines.append((name, *(f"{part:.0f}" for part in row), *ratios))
    print(aligned(lines))


if __name__ == "__main__":
    main()
