"""Certificates and passwords of a running app: refused at its start, changed while it runs."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from confluent_kafka import Consumer, Producer

from tests.integration.secured.systems import RIGHT, STORES, WRONG
from tests.integration.supervised.run import Run
from tests.mutation import twins
from tests.servers import Server, Valkey
from tests.servers.certificates import authority
from tests.servers.shared import own_folder
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}"}}
store: {store}
http: false
outbox: false
timeouts: false
auto_migrate: true
agents:
  pairs:
    from: {ns}-in
    aggregate: {{count: 2}}
    to: {{topic: {ns}-out}}
"""
NEW = "n3w-canary"
ROTATING = ("redis", "postgresql", "mariadb")  # MongoDB leaves connections alone that the old password opened
REFUSED = {
    "certificate": "is not trusted",
    "password": "refuses user or password",
    "ours": "does not accept our certificate, or requires one",
}


def written(folder: Path, ns: str, kafka: str, store: str) -> str:
    path = folder / "app.yaml"
    path.write_text(FILE.format(ns=ns, kafka=kafka, store=store))
    return str(path)


@pytest.mark.parametrize("wrong", REFUSED)
@pytest.mark.parametrize("command", [["run"], ["check", "--connect"]], ids=["run", "check"])
def test_what_is_refused_ends_the_start_with_3(
    own_server: Callable[..., Server], tmp_path: Path, ns: str, command: list[str], wrong: str
) -> None:
    """Long before `start_timeout`, of 30 s, and without a storm of tries."""
    signed, another = authority(own_folder() / "own"), authority(own_folder() / "another")
    server = own_server(
        Valkey, tls=signed.certified("server"), args=["--tls-auth-clients", "yes"] if wrong == "ours" else []
    )
    admin = redis.Redis.from_url(server.url)
    before = connections(admin)
    trusted = another if wrong == "certificate" else signed
    store = f"rediss://worker:{WRONG}@localhost:{server.place.inner_port}/0?ssl_ca_certs={trusted.cert}"
    path = Path(written(tmp_path, ns, "127.0.0.1:1", store))
    if command != ["run"]:  # asks the brokers, too, and nobody is there
        path.write_text(path.read_text().replace("agents:", "start_timeout: 1s\nagents:"))
    done = subprocess.run([SLUICEGATE, command[0], path, *command[1:]], capture_output=True, text=True, timeout=90)
    output = done.stdout + done.stderr
    assert done.returncode == 3, output
    assert REFUSED[wrong] in output
    assert "(tried for 30 s)" not in output
    assert connections(admin) - before <= 2
    assert WRONG not in output


def connections(admin: redis.Redis) -> int:
    """How many the server has seen."""
    return int(admin.info("stats")["total_connections_received"])


class Scene:
    """A store with a user of its own, whose password stands in a file."""

    def __init__(self, name: str, start: Callable[..., Server], folder: Path, ns: str, kafka: str) -> None:
        signed = authority(own_folder() / "own")
        store = STORES[name](start, signed)
        self.change, self.secret, self.ns, self.kafka = store.changed, folder / "secret", ns, kafka
        self.secret.write_text(RIGHT)
        self.file = written(folder, ns, kafka, store.url(signed.cert, f"${{file:{self.secret}}}"))
        self.sent = 0

    def send(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for number in range(self.sent, self.sent + count):
            producer.produce(f"{self.ns}-in", b"{}", b"k%d" % (number // 2))
        assert producer.flush(30) == 0
        self.sent += count

    def results(self) -> Iterator[bytes]:
        """The keys in the output, each id once: a repeat on the wire is allowed. Empty when there is nothing new."""
        seen = set[bytes]()
        consumer = Consumer(
            {"bootstrap.servers": self.kafka, "group.id": self.ns + "-reader", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([f"{self.ns}-out"])
        try:
            while True:
                message = consumer.poll(0.2)
                id = b"" if message is None or message.error() else dict(message.headers())["sluicegate-id"]
                yield b"" if not id or id in seen else bytes(message.key())
                seen.add(id)
        finally:
            consumer.close()


@pytest.fixture(params=ROTATING)
def scene(
    request: pytest.FixtureRequest,
    own_server: Callable[..., Server],
    make_topic: Callable[..., str],
    tmp_path: Path,
    ns: str,
    kafka: str,
) -> Scene:
    for topic in (f"{ns}-in", f"{ns}-out", f"{ns}.dead"):
        make_topic(topic)
    return Scene(request.param, own_server, tmp_path, ns, kafka)


def test_a_password_that_changes_while_it_runs_is_read_again_and_nothing_is_lost(scene: Scene) -> None:
    results, texts = scene.results(), list[bytes]()

    def all_came() -> bool:
        texts.extend(filter(None, [next(results)]))
        return len(texts) >= scene.sent // 2

    run = Run(str(SLUICEGATE), "run", scene.file)
    try:
        scene.send(20)
        wait_until(all_came, 90, "the results of the old password")
        scene.change(NEW)
        scene.send(20)
        run.wait("worker.not_ready", timeout=60)
        scene.secret.write_text(NEW + "\n")
        wait_until(all_came, 90, "the results of the new password")
        assert sorted(texts) == sorted(b"k%d" % number for number in range(20))
        text = str(run.lines) + "".join(run.noise)
        assert "refuses user or password" in text
        assert "canary" not in text
        run.process.terminate()
        assert run.exit_code(60) == 0
    finally:
        run.close()
        results.close()  # type: ignore[attr-defined]
        print(*run.lines[-20:], *run.noise[-20:], sep="\n")


def test_twin_without_reading_it_again_the_new_password_never_counts(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    edited = tmp_path / "twin"
    for name, value in twins.environment("fresh-secrets", edited).items():
        monkeypatch.setenv(name, value)
    run = Run(str(SLUICEGATE), "run", scene.file)
    try:
        run.wait("partition.claimed", timeout=90)
        scene.secret.write_text(NEW)
        scene.change(NEW)
        scene.send(20)
        run.wait("worker.not_ready", count=3, timeout=90)  # with it the first restart would have been the last
    finally:
        run.close()
        print(*run.lines[-20:], *run.noise[-20:], sep="\n")
    twins.check("fresh-secrets", edited, [run.process.pid, *(line["pid"] for line in run.events("worker.running"))])
