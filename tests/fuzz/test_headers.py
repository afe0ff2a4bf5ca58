"""Headers of any names and bytes: who they name, the trace they carry, the id they hold, and the dead letter that they
go into."""

from collections.abc import Callable
from random import Random

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.leased_values import Entry
from sluicegate.streams.contracts.record import Headers
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.handlers.packing import pack, unpack
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.reading.dedupe import DuplicateFilter, IdRule
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.shared.shared_records import packed, unpacked
from sluicegate.streams.testing.log import Log, LogProducer
from tests.fuzz.mutations import Mutator
from tests.fuzz.records import JSONS, Hostile
from tests.fuzz.seeds import TIMES, drawn, replayable

RECORDS = 8_000
NAMES = [
    "sluicegate-shard",
    "sluicegate-seq",
    "sluicegate-id",
    "sluicegate-dead-reason",
    "traceparent",
    "id",
    "",
    "\x00",
    "\n",
    "ü" * 50,
]
VALUES = [
    b"app/a/other/0>in#token",
    b"17",
    b"999999999999999999",
    b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    b"a" * 64,
    b"",
]
AGENT = Agent(
    "fuzz",
    ("in",),
    Aggregation(count=3),
    Destination("out"),
    "dead",
    receive=("in",),
    dedupe=Deduplication("header", "id", on_missing="accept"),
)


def some(random: Random, mutator: Mutator) -> Headers:
    headers = [
        (random.choice(NAMES), random.choice([None, mutator.one(), random.choice(VALUES)]))
        for _ in range(random.randrange(6))
    ]
    return (
        headers
        if random.random() < 0.9
        else [*headers, (NAMES[0], VALUES[0]), (NAMES[1], b"%d" % random.randrange(100))]
    )


def test_headers_of_any_bytes_hurt_nobody(fuzzed: Callable[[int], None]) -> None:
    random, codec = drawn("headers"), formats.reads(AGENT)
    mutator, groups, senders = Mutator(random, VALUES), Groups(Rule(AGENT, codec)), ReceivedShards("in")
    dedupe = DuplicateFilter(IdRule(AGENT, codec))
    rows = Rows(
        Partition("app", "fuzz", "in", 0), AGENT, formats.writes(AGENT), LogProducer(Log(partitions=2)), 1_000_000
    )
    with replayable():
        for offset in range(TIMES * RECORDS):
            value = random.choice([JSONS[0], b"{"])
            record = Hostile(offset, b"k", value, some(random, mutator))
            for run in dedupe.runs(senders.drop_repeats([record], 1.0), 1.0, groups):
                accept(groups, run, 1.0)
            for event, row in zip(events := list(groups.drain()), rows.make(events), strict=True):
                names = [name for name, _ in row.headers]
                assert row.topic == ("dead" if hasattr(event, "record") else "out")
                for ours in ("sluicegate-id", "sluicegate-shard", "sluicegate-seq"):
                    assert names.count(ours) == 1
                if hasattr(event, "record"):
                    kept = [value for name, value in row.headers if not name.startswith("sluicegate-")]
                    assert kept == [value for _, value in record.h]
            again = unpack(pack(Message(None, record)), ("in", 0), offset, lambda item: Message(None, item))
            assert again.record.headers() == record.h  # type: ignore[union-attr]
            [shared] = unpacked([Entry("k", "c", "", packed(record, "id", 1.0))])
            assert list(shared.headers() or ()) == record.h
    assert senders.dropped > 0
    assert dedupe.dropped > 0
    fuzzed(TIMES * RECORDS)
