"""A worker that runs, crashes, loses its store, is asked everything: no secret of its file is in anything that it says,
writes or sends."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.secured.canaries import Canaries
from tests.servers import Server, Valkey, free_port
from tests.waiting import wait_until

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
KAFKA_SECRETS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
)
NAMES = ("store", "token", *KAFKA_SECRETS)
ASKED = [
    ["check"],
    ["check", "--connect", "--json"],
    ["status"],
    ["status", "--json"],
    ["topics", "--json"],
    ["audit"],
    ["explain", "{id}"],
    ["explain", "nothing", "--json"],
    ["groups", "ls", "pairs"],
    ["groups", "show", "pairs", "open"],
    ["parked", "ls", "pairs"],
    ["outbox", "ls"],
    ["timeouts", "ls"],
    ["dead", "ls"],
    ["migrate", "--dry-run"],
    ["replay", "pairs", "--rebuild", "--why", "w"],
]
GROUPS = ("groups", "parked", "outbox", "timeouts", "dead")  # of commands
# Each command in one process: starting one takes longer than what it does.
EACH = """\
import contextlib, json, sys
from sluicegate.streams.cli import main
for words in json.loads(sys.argv[1]):
    print("asked", *words, flush=True)
    with contextlib.suppress(SystemExit):
        main(words)
"""
UNMASKED = "import sluicegate.streams.cli.checking.systems as systems; systems.redacted = str\n" + EACH


class Scene:
    """An app with a secret in each place that takes one: from the environment, from a file, and written down."""

    def __init__(self, server: Server, folder: Path, ns: str, kafka: str) -> None:
        self.server, self.folder, self.ns, self.kafka, self.port = server, folder, ns, kafka, free_port()
        self.canaries = Canaries(NAMES)
        self.log, self.file = folder / "log", folder / "app.yaml"
        with redis.Redis.from_url(server.url) as admin:
            admin.execute_command(
                "ACL", "SETUSER", "worker", "on", f">{self.canaries.secret('store')}", "~*", "&*", "+@all"
            )
        (folder / "secret").write_text(self.canaries.secret("sasl.password") + "\n")
        self.file.write_text(json.dumps(self._document()))
        self.environ = os.environ | {"SLUICEGATE_LOG_LEVEL": "debug", "OTEL_TRACES_EXPORTER": "console"}
        self.environ |= {"STORE_PASSWORD": self.canaries.secret("store"), "TOKEN": self.canaries.secret("token")}

    def _document(self) -> dict[str, Any]:
        written = {name: self.canaries.secret(name) for name in KAFKA_SECRETS}
        rule = {"from": f"{self.ns}.in", "aggregate": {"count": 2}, "to": {"topic": f"{self.ns}.out"}}
        return {
            "app": self.ns,
            "kafka": {
                "bootstrap.servers": self.kafka,
                "debug": "conf,security",
                **written,
                "sasl.password": "${file:secret}",
            },
            "store": f"redis://worker:${{STORE_PASSWORD}}@127.0.0.1:{self.server.port}/0",
            "dead_letters": f"{self.ns}.dead",
            "http": {"port": self.port, "token": "${TOKEN}"},
            "agents": {"pairs": rule},
        }

    def produce(self, *records: tuple[bytes, bytes]) -> None:
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for key, value in records:
            producer.produce(f"{self.ns}.in", value, key)
        assert producer.flush(20) == 0

    def logged(self, words: bytes) -> bool:
        return words in self.log.read_bytes()

    def first(self, topic: str) -> Any:
        """The first message of one of the app's topics."""
        consumer = Consumer(
            {"bootstrap.servers": self.kafka, "group.id": f"{self.ns}-reader", "auto.offset.reset": "earliest"}
        )
        consumer.assign([TopicPartition(f"{self.ns}.{topic}", 0, 0)])
        try:
            return wait_until(lambda: consumer.poll(0.5), 60, f"a message in {topic}")
        finally:
            consumer.close()

    def said(self, *commands: Sequence[str], program: str = EACH) -> dict[str, bytes]:
        """Everything that each command prints; the file comes before its other words, but behind the name of a group of
        commands."""
        words = [
            [*command[: (at := 1 + (command[0] in GROUPS))], str(self.file), *command[at:]] for command in commands
        ]
        arguments = [sys.executable, "-c", program, json.dumps(words)]
        output = subprocess.run(
            arguments, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
        ).stdout
        parts = output.split(b"asked ")[1:]
        assert len(parts) == len(commands), output
        return {" ".join(command): part.partition(b"\n")[2] for command, part in zip(commands, parts, strict=True)}

    def fetched(self, path: str, token: str, method: str = "GET") -> bytes:
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return repr(answer.headers.items()).encode() + answer.read()
        except urllib.error.HTTPError as refused:
            return repr(refused.headers.items()).encode() + refused.read()

    def committed(self) -> bytes:
        """What Kafka keeps of its group, with the text that came along."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": f"{self.ns}.pairs"})
        place = TopicPartition(f"{self.ns}.in", 0)
        try:
            return wait_until(
                lambda: consumer.committed([place], timeout=10)[0].metadata, 30, "an informational commit"
            ).encode()
        finally:
            consumer.close()


@pytest.fixture
def scene(
    own_server: Callable[..., Server], make_topic: Callable[..., str], tmp_path: Path, ns: str, kafka: str
) -> Scene:
    for topic in ("in", "out", "dead"):
        make_topic(f"{ns}.{topic}")
    return Scene(own_server(Valkey), tmp_path, ns, kafka)


@pytest.fixture
def running(scene: Scene) -> Iterator[subprocess.Popen[bytes]]:
    """Its first worker crashes, with a traceback, at its first record."""
    environ = scene.environ | {
        "SLUICEGATE_FAILPOINTS": "after-decode=raise",
        "SLUICEGATE_FAILPOINT_LOG": str(scene.folder / "failpoints"),
    }
    with scene.log.open("wb") as out:
        process = subprocess.Popen([SLUICEGATE, "run", str(scene.file)], stdout=out, stderr=out, env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


def test_nothing_that_a_run_says_writes_or_sends_holds_a_secret(scene: Scene, running: subprocess.Popen[bytes]) -> None:
    scene.produce((b"bad", b"{no json"), (b"k", b"{}"), (b"k", b"{}"), (b"open", b"{}"))
    result, letter = scene.first("out"), scene.first("dead")
    seen = {"traceback": b"Traceback" if scene.logged(b"Traceback") else b""}
    seen |= {
        name: repr((m.key(), m.value(), m.headers())).encode() for name, m in (("result", result), ("letter", letter))
    }
    right, wrong = scene.canaries.secret("token"), "wr0ng"
    for path in ("/status", "/metrics", "/livez", "/readyz", "/nothing"):
        seen |= {f"{path} {token == right}": scene.fetched(path, token) for token in (right, wrong)}
    seen["post"] = scene.fetched("/status", wrong, "POST")
    id = dict(result.headers())["sluicegate-id"].decode()
    commands = [[word.format(id=id) for word in command] for command in ASKED]
    seen |= scene.said(*commands)
    family = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
    assert len(family) >= 2
    seen["processes"] = "\n".join(" ".join([*process.cmdline(), process.name()]) for process in family).encode()
    seen["group"] = scene.committed()
    scene.server.kill9()
    scene.produce((b"k", b"{}"))
    wait_until(lambda: scene.logged(b"partition.unavailable"), 40, "the failure")
    running.terminate()
    assert running.wait(40) == 0
    seen["log"] = scene.log.read_bytes()
    assert b'"process ' in seen["log"]  # spans go to it, too
    seen |= {f"store's {path.name}": path.read_bytes() for path in scene.server.place.root.rglob("*") if path.is_file()}
    assert any(scene.ns.encode() in content for name, content in seen.items() if name.startswith("store's"))
    assert {name: secrets for name, content in seen.items() if (secrets := scene.canaries.found(content))} == {}
    assert [name for name, content in seen.items() if not content and not name.startswith("store's")] == []


def test_twin_without_redaction_the_password_of_the_store_is_found(scene: Scene) -> None:
    command = ["check", "--connect"]
    assert scene.canaries.found(b"".join(scene.said(command).values())) == []
    assert scene.canaries.found(b"".join(scene.said(command, program=UNMASKED).values())) == ["store"]


@pytest.mark.parametrize("form", [bytes, lambda secret: secret.hex().encode()], ids=["as it is", "hexadecimal"])
def test_a_canary_is_found_in_what_holds_it(form: Callable[[bytes], bytes]) -> None:
    canaries = Canaries(["one", "two"])
    assert canaries.found(b"before " + form(canaries.secret("two").encode()) + b" after") == ["two"]


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"worker:"])
def test_a_canary_is_found_in_base64(before: bytes) -> None:
    import base64

    canaries = Canaries(["one", "two"])
    assert canaries.found(base64.b64encode(before + canaries.secret("one").encode() + b"rest")) == ["one"]
