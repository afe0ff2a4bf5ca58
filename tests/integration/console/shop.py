"""A run with the console on, on a real broker and SQLite."""

import http.client
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
BAD = "<script>document.title='owned'</script>\u202e\u200b".encode()
WRONG = (b"not JSON", b'{"v": "text"}', b'{"w": 1}')
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", topic.metadata.refresh.interval.ms: 1000}}
store: sqlite:///state.db
http: {{port: 0, console: true{more}}}
agents:
  baskets:
    from: {ns}-in
    aggregate:
      count: 1000
      timeout: {{after: 60m, since: first}}
      compute: {{total: {{sum: v}}}}
    to: {{topic: {ns}-out}}
"""


class Shop:
    """The file, its run, and what goes into it."""

    def __init__(self, folder: Path, kafka: str, ns: str, more: str = "", text: str = FILE) -> None:
        self.ns = ns
        self.file = str(folder / "app.yaml")
        self._kafka = kafka
        Path(self.file).write_text(text.format(ns=ns, kafka=kafka, more=more))
        for command in (["topics", self.file, "--create", "--partitions", "2"], ["migrate", self.file]):
            assert CliRunner().invoke(main, command).exit_code == 0
        self.run = Run(str(SLUICEGATE), "run", self.file)
        try:
            self.run.wait("partition.claimed", 2, 60.0)
            self.port = self.run.wait("http.listening")[0]["port"]
        except BaseException:
            self.run.close()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def feed(self, *records: tuple[str, bytes], topic: str = "in") -> None:
        producer = Producer(
            {"bootstrap.servers": self._kafka, "enable.idempotence": True, "queue.buffering.max.messages": 2_000_000}
        )
        for key, value in records:
            producer.produce(f"{self.ns}-{topic}", value, key.encode())
            producer.poll(0)
        assert producer.flush(60) == 0

    def orders(self, keys: Iterable[str]) -> None:
        self.feed(*((key, b'{"v": 1}') for key in keys))

    def ask(self, question: str) -> Any:
        """The JSON of one question, without a token, when what it needs is read."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request("GET", f"/console/{question}")
            answer = connection.getresponse()
            content = json.loads(answer.read())
            connection.close()
            if answer.status != 202:
                assert answer.status == 200, content
                return content

    def fill(self, groups: int, dead: int) -> None:
        """Opens so many groups, one of them with a hostile key, and makes so many dead letters, one of them hostile."""
        self.orders(f"basket-{number:05}" for number in range(groups - 1))
        self.feed(*((f"dead-{number:03}", WRONG[number % len(WRONG)]) for number in range(dead - 1)))
        self.feed((HOSTILE, b'{"v": 7}'), ("bad", BAD))
        wait_until(lambda: self.taken(groups + dead), 90.0, "all groups")
        wait_until(lambda: self.ask("groups?agent=baskets")["open"] == groups, 90.0, "the list of them")

    def taken(self, records: int) -> bool:
        """Whether so many records are committed, as the workers report."""
        return sum(max(0, row["offset"]) for row in self._partitions()) >= records

    def groups(self, agent: str) -> int:
        """The open groups of an agent, as its workers report them."""
        return sum(row["groups"] for row in self._partitions(agent))

    def _partitions(self, agent: str | None = None) -> list[Any]:
        workers = self.ask("overview")["workers"]
        return [row for worker in workers if agent in (None, worker["agent"]) for row in worker["partitions"]]

    def audited(self) -> list[tuple[str, str, str]]:
        output = CliRunner().invoke(main, ["audit", self.file, "--json"]).stdout
        return [(change["what"], change["key"], change["why"]) for change in json.loads(output)["changes"]]
