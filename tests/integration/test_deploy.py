"""`sluicegate deploy` while three workers run and are killed: each record is in exactly one result of one rule."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from sluicegate.connectors import open_store
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.operations import deploying
from sluicegate.streams.rules import rule_of
from sluicegate.streams.versions import catalogue
from tests.bench.load import create
from tests.bench.results import reader
from tests.chaos import cells
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

PORTION = 1_500
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000}
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
    (V1, "rewind"),
]
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))


class Changing:
    """The files of all versions, the input, and what came out."""

    def __init__(self, folder: Path, kafka: str, ns: str, store: str) -> None:
        self.kafka, self.ns = kafka, ns
        create(kafka, *(f"{ns}-{name}" for name in ("in", "out", "other", "dead")))
        self.files = [self._file(folder, number, values, store) for number, (values, _) in enumerate(VERSIONS, 1)]
        self.producer = Producer(
            {"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0, "linger.ms": 5}
        )
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
        return Counter(item for message in self.found.values() for item in ids(message))

    def close(self) -> None:
        for consumer in self.outputs:
            consumer.close()


def ids(message: Message) -> list[int]:
    document: dict[str, Any] = json.loads(message.value())
    return document["ids"] if "ids" in document else [document["id"]]


def deploy(file: Path, *more: str, failing: str = "") -> subprocess.CompletedProcess[str]:
    command, environ = (
        [SLUICEGATE, "deploy", str(file), "--yes", *more],
        {**os.environ, "SLUICEGATE_FAILPOINTS": failing},
    )
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environ)


def lag(file: Path) -> int | None:
    """Records that no partition has taken; None where a partition's is not known."""
    command = [SLUICEGATE, "status", str(file), "--json"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    lags = [partition["lag"] for partition in json.loads(output)["partitions"]]
    return None if None in lags else sum(lags)


STORES = ("sqlite", "redis_url", "postgres_url", "mariadb_url", "mongodb_url")


@pytest.fixture(params=STORES)
def changing(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str) -> Iterator[Changing]:
    sqlite = request.param == "sqlite"
    store = f"sqlite:///{tmp_path / 'state.db'}" if sqlite else request.getfixturevalue(request.param)
    made = Changing(tmp_path, kafka, ns, store)
    yield made
    made.close()


def problems(changing: Changing) -> list[str]:
    """What is wrong with the results. A record at which three processes died in a row is a dead letter."""
    rules = {rule_of(loaded(str(file)).agents[0]).short.encode(): number for number, file in enumerate(changing.files)}
    complaints = []
    for message in changing.found.values():
        headers = dict(message.headers())
        if "sluicegate-dead-reason" in headers:
            if headers["sluicegate-dead-reason"] != b"crash":
                complaints.append(f"a dead letter: {headers}")
            continue
        values, document = VERSIONS[rules[headers["sluicegate-rule"]]][0], json.loads(message.value())
        if message.topic() != f"{changing.ns}-{values['OUTPUT']}":
            complaints.append(f"{document} was sent to {message.topic()}")
        if headers["sluicegate-reason"] == b"count" and document["count"] != int(values["COUNT"]):
            complaints.append(f"{document} has another count than {values['COUNT']}")
        keys = {number % (11 if "group" in values["KEY"] else 17) for number in document["ids"]}
        amounts = [number % 13 for number in document["ids"]]
        expected = {"total": sum(amounts), "last": amounts[-1], "most": max(amounts), "least": min(amounts)}
        wrong = [name for name, value in expected.items() if document.get(name, value) != value]
        if len(keys) != 1 or document["count"] != len(document["ids"]) or wrong:
            complaints.append(f"{document} is not what {values} gives: {wrong}")
    return complaints


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
                output = command.communicate(timeout=100)[0]
            assert command.returncode == 0, output
            assert "did not change to version" not in output
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
    assert [time for time in times if times[time] > 1] == []
    assert sorted(times) == list(range(changing.given))
    assert problems(changing) == []
    with closing(open_store(loaded(str(changing.files[0])).store)) as store:
        [agent] = catalogue.read(store, changing.ns).values()
        assert agent.number == 7
        [progress] = deploying.progress(store, loaded(str(changing.files[0])), {"sums": agent})
        assert progress.switched == progress.partitions > 0
        assert progress.finishing == 0


CHANGES = {"finish": 1, "convert": 2, "flush": 4, "rewind": 5, "drop": 1}
"""The version that is deployed with each policy."""
PARAMETERS = dict(zip(("sqlite", "redis", "postgresql", "mariadb", "mongodb"), STORES, strict=True))


class Waking(threading.Thread):
    """Wakes each process that a failpoint stopped, after the group has given its partitions to others."""

    def __init__(self, log: Path) -> None:
        super().__init__(daemon=True)
        self._log, self._ended, self._woken = log, threading.Event(), set[int]()
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.2):
            lines = self._log.read_text().splitlines() if self._log.exists() else []
            for pid in {int(line.split()[2]) for line in lines} - self._woken:
                self._woken.add(pid)
                self._ended.wait(9)  # seconds; the session ends after 6
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        self._ended.set()
        self.join()


def on(cell: cells.Cell, *more: str) -> Any:
    """The parameters of a test at this cell, on its store."""
    return pytest.param(PARAMETERS[cell.store], *more, cell, id="-".join((*more, str(cell))))


def dropped(times: Mapping[int, int], source: int, count: int) -> list[int]:
    """The records that are in no result, if they can be one open group of each key that a deployment dropped."""
    offsets = []
    for key in range(17):
        of_key = list(range(key, source, 17))
        gone = [place for place, offset in enumerate(of_key) if offset not in times]
        if gone != list(range(gone[0], gone[0] + len(gone)) if gone else ()) or len(gone) >= count:
            return []
        offsets += [of_key[place] for place in gone]
    return offsets


@pytest.mark.parametrize(
    ("changing", "policy", "cell"), [on(cell, change) for change, cell in cells.changes()], indirect=["changing"]
)
def test_a_worker_fails_while_a_partition_changes(
    changing: Changing, policy: str, cell: cells.Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three workers; one of them goes on with the earlier file."""
    monkeypatch.setenv("SLUICEGATE_FAILPOINTS", f"{cell.point}={cell.kind}")
    monkeypatch.setenv("SLUICEGATE_FAILPOINT_LOG", str(tmp_path / "failed"))
    version = CHANGES[policy]
    runs = [Run(SLUICEGATE, "run", str(changing.files[version - 1]))]
    waking = Waking(tmp_path / "failed") if cell.kind == "stop" else None
    try:
        changing.give()
        wait_until(lambda: changing.taken(), 60, "a result")
        assert deploy(changing.files[version], "--open", policy, "--no-wait").returncode == 0
        runs.append(Run(SLUICEGATE, "run", str(changing.files[version]), "--workers", "2"))
        changing.give()
        assert deploy(changing.files[version]).returncode == 0
        wait_until(lambda: (tmp_path / "failed").exists(), 60, "the fault")
        changing.give()
        wait_until(lambda: lag(changing.files[version]) == 0, 90, "the end of the input")  # else no flush ends it
        last = changing.files[1 if version == 5 else 5]
        assert deploy(last, "--open", "flush").returncode == 0
        newest = set(range(changing.given - 17, changing.given))
        wait_until(lambda: newest <= changing.taken().keys(), 90, "the last records in results")
        wait_until(lambda: complete(changing, policy, version), 30, "all records in results")
    finally:
        if waking is not None:
            waking.close()
        for run in runs:
            run.close()
    assert (tmp_path / "failed").read_text().startswith(f"{cell.point} {cell.kind} ")
    assert max(changing.taken().values()) == 1
    assert problems(changing) == []


def complete(changing: Changing, policy: str, version: int) -> bool:
    """Whether each record is in a result, or in an open group that the policy dropped."""
    times = changing.taken()
    gone = dropped(times, changing.given, int(VERSIONS[version - 1][0]["COUNT"])) if policy == "drop" else []
    return len(times) + len(gone) == changing.given and (policy != "drop" or bool(gone))


@pytest.mark.parametrize(("changing", "cell"), [on(cell) for cell in cells.commands()], indirect=["changing"])
def test_a_command_that_fails_after_its_commit_is_repeated(changing: Changing, cell: cells.Cell) -> None:
    run = Run(SLUICEGATE, "run", str(changing.files[0]))
    try:
        changing.give()
        wait_until(lambda: changing.taken(), 60, "a result")
        assert deploy(changing.files[1], "--open", "finish", failing=f"{cell.point}={cell.kind}").returncode != 0
        again = deploy(changing.files[1], "--open", "finish")
        assert (again.returncode, "unchanged" in again.stdout) == (0, True)
        assert "sums: version 2 runs in" in again.stdout
        changing.give()
        assert deploy(changing.files[5], "--open", "flush").returncode == 0
        wait_until(lambda: len(changing.taken()) == changing.given, 60, "all records in results")
    finally:
        run.close()
    assert max(changing.taken().values()) == 1
    assert problems(changing) == []
