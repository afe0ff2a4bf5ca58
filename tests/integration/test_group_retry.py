"""`dead retry` of completed groups on every store: commands and workers are killed (-9) at each step of the repair, and
each group has one result."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_commands_live import SLUICEGATE, sluicegate
from tests.waiting import wait_until

FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}"}}
store: "{store}"
accept_level: volatile
auto_migrate: true
dead_letters: {ns}-dead
http: false
agents:
  sums:
    from: {ns}-in
    scope: {scope}
    start: earliest
    aggregate: {{count: 3, compute: {{total: {{sum: amount}}}}}}
    to:
      - {{topic: {ns}-out, where: total > LEAST}}
  calls:
    from: {ns}-in
    scope: {scope}
    start: earliest
    aggregate: {{count: 3, compute: {{total: {{sum: amount}}}}}}
    handler: calls:send_if_mended
    retry: {{attempts: 1}}
    to: {{topic: {ns}-out}}
"""
MODULE = """\
from pathlib import Path


def send_if_mended(batch, send):
    Path(__file__).with_name("mended").read_text()
    send({"called": batch.value["total"]})
"""
STORES = {
    "sqlite": "",
    "redis": "redis_url",
    "postgresql": "postgres_url",
    "mariadb": "mariadb_url",
    "mongodb": "mongodb_url",
}
KEYS = 4
KILLS = {
    "partition": "before-commit=kill@1*2,commit-sent=kill@1*2,after-restore=kill@1*2",
    "shared": "shared-sealed=kill@1*2,shared-completed=kill@1*2",
}
"""Of workers, by the scope of the agents."""
AGENTS = ("sums", "calls")
LIMIT = 120.0


class Shop:
    """The file, its topics, and what is done with them."""

    def __init__(self, folder: Path, kafka: str, store: str, ns: str, scope: str) -> None:
        self.folder, self.kafka, self.ns, self.path, self.scope = folder, kafka, ns, folder / "app.yaml", scope
        self.partitions = 1 if scope == "partition" else 3
        self.text = FILE.format(ns=ns, kafka=kafka, store=store, scope=scope)
        self.write(1000)
        (folder / "calls.py").write_text(MODULE)
        sluicegate("topics", str(self.path), "--create", "--partitions", str(self.partitions), "--json")
        assert CliRunner().invoke(main, ["migrate", str(self.path)]).exit_code == 0

    def write(self, least: int) -> None:
        self.path.write_text(self.text.replace("LEAST", str(least)))

    def mend(self) -> None:
        self.write(1)
        (self.folder / "mended").write_text("")

    def feed(self) -> None:
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for number in range(3 * KEYS):
            value, key = json.dumps({"amount": number + 1}).encode(), b"k%d" % (number % KEYS)
            producer.produce(f"{self.ns}-in", value, key, number // KEYS % self.partitions)
        assert producer.flush(30) == 0

    @contextmanager
    def running(self, failpoints: str = "") -> Iterator[Run]:
        environ = {"SLUICEGATE_FAILPOINTS": failpoints, "SLUICEGATE_FAILPOINT_LOG": str(self.folder / "hits")}
        run = Run(
            "env", *(f"{name}={value}" for name, value in environ.items()), str(SLUICEGATE), "run", str(self.path)
        )
        try:
            yield run
            run.signal(signal.SIGTERM)
            assert run.exit_code(60) == 0
        finally:
            run.close()
            print("\n".join(map(str, run.lines[-40:])), *run.noise[-20:])

    def letters(self) -> list[dict[str, Any]]:
        return list(sluicegate("dead", "ls", str(self.path), "--all", "--json")["dead"])

    def retry(self, agent: str, killed_at: str = "") -> int:
        command = [str(SLUICEGATE), "dead", "retry", str(self.path), agent, "--all", "--yes"]
        environ = {**os.environ, "SLUICEGATE_FAILPOINTS": f"{killed_at}=kill" if killed_at else ""}
        return subprocess.run(command, env=environ, capture_output=True, timeout=LIMIT).returncode

    def drawn(self, count: int) -> Sequence[Message]:
        """All results, once there are so many with different ids."""
        consumer = reader(self.kafka, f"{self.ns}-out")
        messages: list[Message] = []
        try:
            wait_until(
                lambda: (
                    messages.extend(consumer.consume(1000, 0.2))
                    or len({id_of(message) for message in messages}) >= count
                ),
                LIMIT,
                f"{count} results",
            )
            return messages
        finally:
            consumer.close()


def id_of(message: Message) -> bytes:
    return dict(message.headers() or ())["sluicegate-id"]


@pytest.fixture(params=KILLS)
def scope(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STORES)
def shop(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str, scope: str) -> Shop:
    name = STORES[request.param]
    store = request.getfixturevalue(name) if name else f"sqlite:///{tmp_path}/state.db"
    return Shop(tmp_path, kafka, store, ns, scope)


@pytest.mark.timeout(900)
def test_each_group_has_one_result_whoever_is_killed_during_its_repair(shop: Shop) -> None:
    shop.feed()
    with shop.running():
        wait_until(lambda: len(shop.letters()) == 2 * KEYS, LIMIT, "a dead letter of each group of both agents")
    shop.mend()
    for agent in AGENTS:
        assert shop.retry(agent, "group-asked") == -signal.SIGKILL
        assert not any(letter["retried"] for letter in shop.letters() if letter["agent"] == agent)
        if shop.scope == "shared":
            assert shop.retry(agent, "group-inserted") == -signal.SIGKILL
        assert shop.retry(agent, "group-kept") == -signal.SIGKILL
    with shop.running(KILLS[shop.scope]):
        results = shop.drawn(2 * KEYS)
        assert (shop.folder / "hits").read_text().count("kill") >= 4
    for agent in AGENTS:
        again = CliRunner().invoke(main, ["dead", "retry", str(shop.path), agent, "--all", "--yes", "--json"])
        assert (again.exit_code, len(json.loads(again.stdout)["refused"])) == (5, KEYS), again.output
    assert all(letter["retried"] for letter in shop.letters())
    with shop.running():
        shop.feed()
        later = shop.drawn(4 * KEYS)
    totals = [sum(range(key + 1, 3 * KEYS + 1, KEYS)) for key in range(KEYS)]
    once = sorted([str({"called": total}) for total in totals] + [str({"total": total}) for total in totals])
    for outputs, times in ((results, 1), (later, 2)):
        distinct = {id_of(message): json.loads(message.value()) for message in outputs}
        documents = [
            {name: value for name, value in message.items() if name in ("called", "total")}
            for message in distinct.values()
        ]
        assert sorted(map(str, documents)) == sorted(once * times)
    assert len(shop.letters()) == 2 * KEYS
