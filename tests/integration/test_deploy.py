"""`sluicegate deploy` while three workers run and are killed: each record is in exactly one result of one rule."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from sluicegate.connectors import open_store
from sluicegate.streams.cli.files import loaded
from sluicegate.streams.operations import deploying
from sluicegate.streams.rules import rule_of
from sluicegate.streams.versions import catalogue
from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

PORTION = 1_500
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
    KEY
    aggregate: {count: COUNT, compute: {ids: {collect: id}, COMPUTE}}
    to: {topic: NS-OUTPUT}
"""
V1 = {"KEY": "start: earliest", "COUNT": "7", "COMPUTE": "total: {sum: amount}", "OUTPUT": "out"}
VERSIONS = [
    (V1, None),
    (V1 | {"COUNT": "5", "COMPUTE": "last: {last: amount}", "OUTPUT": "other"}, "finish"),
    (V1 | {"COUNT": "9", "COMPUTE": "last: {last: amount}, n: count", "OUTPUT": "other"}, "convert"),
    (V1 | {"KEY": "key: group", "COUNT": "11", "COMPUTE": "most: {max: amount}"}, "finish"),
    (V1 | {"KEY": "key: group", "COUNT": "4", "COMPUTE": "least: {min: amount}"}, "flush"),
    (V1, "flush"),
]
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))


class Changing:
    """The files of all versions, the input, and what came out."""

    def __init__(self, folder: Path, kafka: str, ns: str, store: str) -> None:
        self.kafka, self.ns = kafka, ns
        create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "other", "dead")))
        self.files = [self._file(folder, number, values, store) for number, (values, _) in enumerate(VERSIONS, 1)]
        self.producer = Producer({"bootstrap.servers": kafka, "log_level": 0, "linger.ms": 5})
        self.outputs = [reader(kafka, f"{ns}-{name}") for name in ("out", "other", "dead")]
        self.found: dict[bytes, Message] = {}
        self.given = 0

    def _file(self, folder: Path, number: int, values: dict[str, str], store: str) -> Path:
        text = FILE
        for name, value in {**values, "NS": self.ns, "KAFKA": self.kafka, "STORE": store}.items():
            text = text.replace(name, value)
        (folder / f"v{number}.yaml").write_text(text)
        return folder / f"v{number}.yaml"

    def give(self) -> None:
        for number in range(self.given, self.given + PORTION):
            value = {"id": number, "amount": number % 13, "group": f"g{number % 11}"}
            self.producer.produce(f"{self.ns}-in", json.dumps(value).encode(), key=f"k{number % 17}".encode())
        assert self.producer.flush(60) == 0
        self.given += PORTION

    def taken(self) -> Counter[int]:
        """How often each record is in what came out. Copies of one output count once."""
        for consumer in self.outputs:
            for message in consumer.consume(5_000, 0.2):
                self.found.setdefault(dict(message.headers())["sluicegate-id"], message)
        return Counter(each for message in self.found.values() for each in ids(message))

    def close(self) -> None:
        for consumer in self.outputs:
            consumer.close()


def ids(message: Message) -> list[int]:
    found: dict[str, Any] = json.loads(message.value())
    return found["ids"] if "ids" in found else [found["id"]]


def deploy(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [SLUICEGATE, "deploy", str(file), "--yes", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture(params=["sqlite", "redis_url", "postgres_url", "mariadb_url", "mongodb_url"])
def changing(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str) -> Iterator[Changing]:
    sqlite = request.param == "sqlite"
    store = f"sqlite:///{tmp_path / 'state.db'}" if sqlite else request.getfixturevalue(request.param)
    made = Changing(tmp_path, kafka, ns, store)
    yield made
    made.close()


def problems(changing: Changing) -> list[str]:
    """What is wrong with the results. A record at which three processes died in a row is a dead letter."""
    rules = {rule_of(loaded(str(file)).agents[0]).short.encode(): number for number, file in enumerate(changing.files)}
    found = []
    for message in changing.found.values():
        headers = dict(message.headers())
        if "sluicegate-dead-reason" in headers:
            if headers["sluicegate-dead-reason"] != b"crash":
                found.append(f"a dead letter: {headers}")
            continue
        values, document = VERSIONS[rules[headers["sluicegate-rule"]]][0], json.loads(message.value())
        if message.topic() != f"{changing.ns}-{values['OUTPUT']}":
            found.append(f"{document} was sent to {message.topic()}")
        if headers["sluicegate-reason"] == b"count" and document["count"] != int(values["COUNT"]):
            found.append(f"{document} has another count than {values['COUNT']}")
        keys = {number % (11 if "group" in values["KEY"] else 17) for number in document["ids"]}
        amounts = [number % 13 for number in document["ids"]]
        expected = {"total": sum(amounts), "last": amounts[-1], "most": max(amounts), "least": min(amounts)}
        wrong = [name for name, value in expected.items() if document.get(name, value) != value]
        if len(keys) != 1 or document["count"] != len(document["ids"]) or wrong:
            found.append(f"{document} is not what {values} gives: {wrong}")
    return found


def test_rules_are_deployed_while_workers_are_killed(changing: Changing) -> None:
    chance = random.Random(changing.ns)
    runs = [Run(SLUICEGATE, "run", str(changing.files[0]), "--workers", "2")]
    try:
        runs[0].wait("partition.claimed", 1)
        runs.append(Run(SLUICEGATE, "run", str(changing.files[0])))
        changing.give()
        for file, (_, policy) in list(zip(changing.files, VERSIONS, strict=True))[1:]:
            killed = chance.choice([runs[0].pids(1)[-1], runs[1].pids(1)[-1]])
            changing.give()
            with subprocess.Popen(
                [SLUICEGATE, "deploy", str(file), "--yes", "--open", str(policy)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as command:
                os.kill(killed, signal.SIGKILL)
                changing.give()
                said = command.communicate(timeout=100)[0]
            assert command.returncode == 0, said
            assert "did not change to version" not in said
        changing.give()
        assert deploy(changing.files[1], "--open", "flush").returncode == 0
        wait_until(lambda: len(changing.taken()) == changing.given, 60, "all records in results")
        status, text = runs[1].get("/readyz")
        assert status == 503
        assert "the file is version 6, deployed is version 7" in text
    finally:
        for run in runs:
            run.close()
    times = changing.taken()
    assert [each for each in times if times[each] > 1] == []
    assert sorted(times) == list(range(changing.given))
    assert problems(changing) == []
    with closing(open_store(loaded(str(changing.files[0])).store)) as store:
        [agent] = catalogue.read(store, changing.ns).values()
        assert agent.number == 7
        [progress] = deploying.progress(store, loaded(str(changing.files[0])), {"sums": agent})
        assert progress.switched == progress.partitions > 0
        assert progress.finishing == 0
