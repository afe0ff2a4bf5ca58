"""`replay --rewind`: corrections on real brokers and stores, from commands that are killed."""

import json
import os
import random
import signal
import subprocess
import sys
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from msgspec import structs

from sluicegate.connectors import open_store
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.contracts.values import PartitionView
from tests.bench.load import create
from tests.bench.results import reader
from tests.chaos.cells import WHOLE
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

RECORDS, KILLS = (1_000_000, 10) if WHOLE else (24_000, 6)
TIMES = (1, 20, 60) if WHOLE else (1, 1, 2)  # how many commits of a process the kill waits for
LIMIT = 90 + RECORDS / 4_000  # seconds for the live run, and for one command
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: "STORE"
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  sums:
    from: NS-in
    start: earliest
    RULE
    to: {topic: NS-out}
"""
LIVE = "aggregate: {count: 7, compute: {ids: {collect: id}}}"
SHORTER = "aggregate: {count: 5, compute: {ids: {collect: id}, total: {sum: amount}}}"
FILTERED = f"where: amount >= 3\n    {LIVE}"
LAST = "~"  # behind every id
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
STORES = {
    "sqlite": "sqlite",
    "redis": "redis_url",
    "postgresql": "postgres_url",
    "mariadb": "mariadb_url",
    "mongodb": "mongodb_url",
}


class Record(NamedTuple):
    id: int
    key: str
    amount: int


def record(number: int) -> Record:
    """Key k0 has only amounts below 3."""
    key = number * 7919 % 23
    return Record(number, f"k{key}", number % 3 if key == 0 else number % 11)


class Published:
    """What a live agent published, and what a replay writes beside it."""

    def __init__(self, folder: Path, kafka: str, ns: str, store: str) -> None:
        self.folder, self.kafka, self.ns, self.store = folder, kafka, ns, store
        create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "dead", "mended")))
        self.live = self.file("live", LIVE)
        self._consumers = {name: reader(kafka, f"{ns}-{name}") for name in ("out", "mended")}
        self.found = {name: list[Message]() for name in self._consumers}

    def file(self, name: str, rule: str) -> Path:
        file, text = self.folder / f"{name}.yaml", FILE
        for part, value in {"RULE": rule, "NS": self.ns, "KAFKA": self.kafka, "STORE": self.store}.items():
            text = text.replace(part, value)
        file.write_text(text)
        return file

    def publish(self) -> None:
        """Run the live agent over all records."""
        settings = {"bootstrap.servers": self.kafka, "log_level": 0, "enable.idempotence": True}  # keeps the order
        producer = Producer({**settings, "queue.buffering.max.messages": RECORDS})
        for number in map(record, range(RECORDS)):
            producer.produce(f"{self.ns}-in", json.dumps({"id": number.id, "amount": number.amount}), key=number.key)
        assert producer.flush(LIMIT) == 0
        counts = defaultdict[str, int](int)
        for number in map(record, range(RECORDS)):
            counts[number.key] += 1
        whole = sum(count // 7 for count in counts.values())
        run = Run(SLUICEGATE, "run", str(self.live))
        try:
            wait_until(lambda: len(self.read("out")) >= whole, LIMIT, "all results")
            run.signal(signal.SIGTERM)
            assert run.exit_code(40) == 0
        finally:
            run.close()

    def read(self, name: str) -> list[Message]:
        self.found[name] += self._consumers[name].consume(10_000, 0.3)
        return self.found[name]

    def all_of(self, name: str) -> list[Message]:
        while len(self.found[name]) != len(self.read(name)):
            pass
        for _ in range(3):
            self.read(name)
        return self.found[name]

    def command(self, file: Path, *more: str, failing: str = "") -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                SLUICEGATE,
                "replay",
                str(file),
                "sums",
                "--rewind",
                "--from",
                "earliest",
                "--into",
                f"{self.ns}-mended",
                "--json",
                "--rate",
                str(max(10_000, RECORDS // 10)),
                *more,
            ],
            env={**os.environ, "SLUICEGATE_FAILPOINTS": failing},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def rewind(self, file: Path, *more: str, failing: str = "") -> tuple[int, str, str]:
        with self.command(file, *more, failing=failing) as process:
            output, errors = process.communicate(timeout=LIMIT)
        return process.returncode, output, errors

    def state(self) -> list[Any]:
        """All that the store, the topics and the consumer group have of the live agent."""
        sent = [(message.offset(), message.key(), message.value(), message.headers()) for message in self.all_of("out")]
        with closing(open_store(loaded(str(self.live)).store)) as store:
            rows = [partition for partition in store.partitions(self.ns) if partition.agent == "sums"]
            views = [_timeless(store.read(row)) for row in rows]
            waiting = [list(store.pending(row, 0, RECORDS)) for row in rows]
        assert rows
        places = [TopicPartition(row.topic, row.number) for row in rows]
        group = Consumer({"bootstrap.servers": self.kafka, "group.id": f"{self.ns}.sums"})
        committed = [place.offset for place in group.committed(places, timeout=10)]
        group.close()
        assert min(committed) > 0
        return [sent, views, waiting, committed]

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


@pytest.fixture
def published(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str) -> Iterator[Published]:
    kind = getattr(request, "param", "sqlite")
    store = f"sqlite:///{tmp_path / 'state.db'}" if kind == "sqlite" else request.getfixturevalue(kind)
    made = Published(tmp_path, kafka, ns, store)
    made.publish()
    yield made
    made.close()


def _timeless(view: PartitionView | None) -> PartitionView:
    """The view without the time at which it was read."""
    assert view is not None
    return structs.replace(view, claim=structs.replace(view.claim, store_time=0.0))


def headers(message: Message) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in message.headers() or ()}


def expected(published: Published, count: int, least: int = 0) -> tuple[set[tuple[Any, ...]], dict[str, list[Any]]]:
    """The corrections, by a program that knows the input and the published results only: the ids of each, with the fire
    ids of the results that it replaces. And the results, by key."""
    results = defaultdict[str, list[Any]](list)
    for message in published.all_of("out"):
        fields, document = headers(message), json.loads(message.value())
        results[document["key"]].append((document["ids"], fields["sluicegate-id"]))
    made = set[tuple[Any, ...]]()
    for key, of_key in results.items():
        of_key.sort()
        read = [(item, name) for ids, name in of_key for item in ids]
        rest = [item for ids, _ in of_key for item in ids if record(item).amount >= least]
        replaced = set[str]()
        for begin in range(0, len(rest), count):
            part = rest[begin : begin + count]
            within = read[bisect(read, (part[0], "")) : bisect(read, (part[-1], LAST))]
            spanned = dict.fromkeys(name for _, name in within)
            replaced.update(spanned)
            made.add((key, tuple(part), tuple(spanned), "count" if len(part) == count else "replay"))
        made |= {(key, (), (name,), "replay") for _, name in of_key if name not in replaced}
    return made, results


def corrections(published: Published) -> dict[str, tuple[Any, ...]]:
    """Those in the topic by their id. Each is there once."""
    corrected = dict[str, tuple[Any, ...]]()
    for message in published.all_of("mended"):
        fields, document = headers(message), json.loads(message.value())
        assert fields["sluicegate-id"] not in corrected
        assert document["count"] == len(document.get("ids", ()))
        names = tuple(fields["sluicegate-replaces"].split(","))
        corrected[fields["sluicegate-id"]] = (
            document["key"],
            tuple(document.get("ids", ())),
            names,
            fields["sluicegate-reason"],
        )
        assert fields["sluicegate-replay"] == "1"
    return corrected


def judge(published: Published, count: int, least: int = 0) -> None:
    wanted, _ = expected(published, count, least)
    rewound = corrections(published)
    assert len(rewound) == len(wanted)
    assert set(rewound.values()) == wanted


@pytest.mark.timeout(3_600 if WHOLE else 180)
@pytest.mark.parametrize("published", STORES.values(), indirect=True, ids=STORES)
def test_a_replay_that_is_killed_again_and_again_sends_each_correction_once(published: Published) -> None:
    before, mended = published.state(), published.file("mended", SHORTER)
    chance = random.Random(7)
    for _ in range(KILLS):
        place, time = chance.choice(["correction-committed", "correction-sent"]), chance.choice(TIMES)
        code, output, errors = published.rewind(mended, failing=f"{place}=kill@{time}")
        assert code == -signal.SIGKILL, errors
    code, output, errors = published.rewind(mended)
    assert code == 0, errors
    judge(published, 5)
    assert sum(partition["corrections"] for partition in json.loads(output)["partitions"]) == len(
        corrections(published)
    )
    assert published.state() == before


def test_a_result_of_which_the_rule_leaves_nothing_is_replaced_by_a_document_with_count_0(published: Published) -> None:
    code, _, errors = published.rewind(published.file("mended", FILTERED), "--rate", "100000")
    assert code == 0, errors
    judge(published, 7, least=3)
    assert {key for key, ids, *_ in corrections(published).values() if not ids} == {"k0"}


def test_another_range_waits_for_the_running_replay_or_abandons_it(published: Published) -> None:
    mended = published.file("mended", SHORTER)
    assert published.rewind(mended, failing="correction-sent=kill@1")[0] == -signal.SIGKILL
    code, _, errors = published.rewind(published.live)
    assert code == 2
    assert "replay 1 of agent sums" in errors
    assert "--abandon 1" in errors
    given_up = subprocess.run([SLUICEGATE, "replay", str(mended), "sums", "--abandon", "1"], capture_output=True)
    assert given_up.returncode == 0, given_up.stderr
    code, output, errors = published.rewind(mended, "--to", "3000")
    assert code == 0, errors
    assert json.loads(output)["replay"] == 2
    ids = {message["sluicegate-id"] for message in map(headers, published.all_of("mended"))}
    assert len(ids) == len(published.found["mended"])


@pytest.mark.parametrize("into", ["in", "out", "dead"])
def test_corrections_go_to_no_topic_of_an_agent(published: Published, into: str) -> None:
    code, _, errors = published.rewind(published.live, "--into", f"{published.ns}-{into}")
    assert code == 2
    assert f"--into {published.ns}-{into}: agent sums" in errors
