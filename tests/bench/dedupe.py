"""What de-duplication costs: ns per record beside `accept`, bytes per id in memory and in the log, seconds to restore.

    python -m tests.bench.dedupe [--records 500000] [--passes 3]

Measured as tests.bench.hotpath does, on the same orders, each with an id of 36 bytes in a header and one of 10 in a
field.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import quantiles
from typing import Any

from confluent_kafka import Consumer

from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.aggregation.taking import fill
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.receive import ReceivedShards
from tests.bench import load
from tests.bench.hotpath import COUNT, MAX, NOW, SUM, TOPIC, Part, measure
from tests.bench.table import aligned
from tests.servers import Kafka
from tests.servers.shared import open_server

BATCH = 250
RULE = Aggregation(count=100, since_first=600.0, compute=(COUNT, SUM, MAX))
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


ROWS: dict[str, Callable[[], Part]] = {
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
    held = tracemalloc.get_traced_memory()[0] - sum(map(len, blobs))
    tracemalloc.stop()
    begin = time.monotonic()
    fresh()[1].replay(blobs, 1, len(blobs), ReceivedShards(TOPIC))
    restored = time.monotonic() - begin
    kept = sum(map(len, blobs[log.kept[0][0] - 1 :]))
    return [
        ("bytes of memory per id", f"{held / count:.0f}"),
        ("bytes of the log per id", f"{kept / count:.0f}"),
        (f"seconds to restore {count} ids", f"{restored:.2f}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dedupe")
    parser.add_argument("--records", type=int, default=500_000, help="a multiple of 100")
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    print(aligned(memory(1_000_000)))
    with ExitStack() as opened:
        server = open_server(Kafka(heap="512m"))
        opened.callback(server.destroy)
        load.fill(server.url, TOPIC, options.records, named=True)
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
        found: dict[str, list[float]] = {}
        for _ in range(options.passes):
            for name, make in ROWS.items():
                found.setdefault(name, []).extend(measure(consumer, make(), options.records)[1])
    lines = [(name, *(f"{part:.0f}" for part in quantiles(each, n=20)[1::8])) for name, each in found.items()]
    print(aligned([("ns per record", "10 %", "median", "90 %"), *lines]))


if __name__ == "__main__":
    main()
