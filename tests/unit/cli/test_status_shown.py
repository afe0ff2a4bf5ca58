"""What `sluicegate status` shows a person: shared groups, what is dead, owners after a stop, and the screen of
`--watch`."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from sluicegate.connectors import open_store
from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, feed
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: app
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
start_timeout: 20s
http: false
agents:
  orders-by-customer:
    from: in
    aggregate: {count: 3, timeout: {after: 10m, since: first}}
    to: {topic: out}
  b: {from: other, aggregate: {count: 1}, to: {topic: out}}
"""


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    made = EmbeddedBroker({"in": 3, "other": 1, "out": 1, "app.dead": 3})
    yield made
    made.close()


@pytest.fixture
def file(tmp_path: Path, broker: EmbeddedBroker) -> str:
    (tmp_path / "app.yaml").write_text(FILE.replace("KAFKA", broker.bootstrap))
    return str(tmp_path / "app.yaml")


def sluicegate(*args: str) -> str:
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.output
    return done.stdout


def worker(file: str, log: Log) -> Driver:
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    return Driver(app.agents[0], store, log, ManualClock())


def copied(log: Log, topic: str, broker: EmbeddedBroker) -> None:
    """From the log of a driver to the broker."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number, partition in enumerate(log.topics[topic]):
        for message in partition:
            producer.produce(topic, message.v, message.k, number, headers=message.h)
    assert producer.flush(20) == 0


def test_a_shared_agent_shows_the_groups_of_its_buffer(file: str) -> None:
    Path(file).write_text(Path(file).read_text().replace("    from: in\n", "    from: in\n    scope: shared\n"))
    log = a_log("in", "out", "dead", partitions=3)
    for number in range(3):
        feed(log, ("x", 1), (f"y{number}", 1), number=number)
    worker(file, log).give(0, 1).turns()
    agent = "orders-by-customer"
    listed = json.loads(sluicegate("groups", "ls", file, agent, "--json"))["groups"]
    shown = json.loads(sluicegate("status", file, "--agent", agent, "--json"))
    [total] = shown["agents"]
    assert (total["agent"], total["open_groups"], len(listed)) == (agent, 3, 3)
    assert 500 < total["next_deadline"] <= 600
    assert 0 <= total["oldest"] < 60
    assert [row["open_groups"] for row in shown["partitions"]] == [None, None, None], "a group lies in no partition"
    [line] = [line for line in sluicegate("status", file).splitlines() if line.startswith(agent)]
    assert re.fullmatch(r"orders-by-customer\s+0\s+3\s+\d+ s\s+(9|10) min\s+0\s+0\s*", line), line


def test_dead_counts_what_dead_ls_lists(file: str, broker: EmbeddedBroker) -> None:
    log = a_log("in", "out", "app.dead", partitions=3)
    made = worker(file, log).give(0, 1)
    made.producer.fate = lambda row: "rejected" if row.key == b"huge" else "delivered"
    log.append("in", 0, b"k", b"{bad", [])
    log.append("in", 0, b"k", b"{worse", [])
    feed(log, ("huge", 1), ("huge", 1), ("huge", 1), number=1)
    made.turns(6).later(5).turns(4)
    copied(log, "app.dead", broker)
    listed = json.loads(sluicegate("dead", "ls", file, "--json"))["dead"]
    assert sorted(letter["kind"] for letter in listed) == ["record", "record", "row"]
    shown = json.loads(sluicegate("status", file, "--json"))
    assert [(row["topic"], row["partition"], row["dead"]) for row in shown["partitions"] if row["dead"]] == [
        ("in", 0, 2),
        ("in", 1, 1),
    ]
    assert [total["dead"] for total in shown["agents"]] == [3, 0]
    assert [line.split()[-1] for line in sluicegate("status", file).splitlines() if line.startswith("total")] == ["3"]


def test_an_owner_that_stopped_is_not_shown(file: str) -> None:
    log = a_log("in", "out", "app.dead", partitions=3)
    feed(log, ("x", 1))
    made = worker(file, log).give(0)
    made.turns()
    assert " member " in sluicegate("status", file)
    assert " member" in sluicegate("groups", "ls", file, "orders-by-customer")
    made.worker.run(lambda: True)
    assert "member" not in sluicegate("status", file)
    assert "member" not in sluicegate("groups", "ls", file, "orders-by-customer")
    assert "no owner" in sluicegate("groups", "why", file, "orders-by-customer", "x")


def test_an_agent_that_is_not_in_the_file_is_a_usage_error(file: str) -> None:
    result = CliRunner().invoke(main, ["status", file, "--agent", "c"])
    assert (result.exit_code, "there is no agent 'c'; the file has orders-by-customer, b" in result.stderr) == (2, True)


class Screen:
    """A terminal of this width, with `status --watch` in it; `text` is what was written to it."""

    def __init__(self, columns: int, *args: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        environment["TERM"] = "xterm"
        command = [SLUICEGATE, "status", *args, "--watch"]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self._written: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self._written.append(os.read(self._ours, 4096))
            except OSError:  # the other end is closed
                return

    @property
    def lines(self) -> list[str]:
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", b"".join(self._written).decode())
        return plain.replace("\r", "").split("\n")

    def close(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(30)
        self._reader.join(30)
        os.close(self._ours)
        return code


@pytest.mark.parametrize("columns", [80, 110])
def test_watch_is_readable(file: str, columns: int) -> None:
    log = a_log("in", "out", "app.dead", partitions=3)
    feed(log, *[(f"k{n}", 1) for n in range(20)])
    made = worker(file, log).give(0, 1, 2)
    made.worker._claims._setting = made.worker._claims._setting._replace(
        member="orders-by-customer-0-ip-10-0-12-200-1234567"
    )
    made.turns(8)
    screen = Screen(columns, file)
    try:
        wait_until(lambda: any(line.startswith("total ") for line in screen.lines), 30, "the first picture")
        lines = screen.lines
    finally:
        code = screen.close()
    assert code == 0
    assert all(len(line) <= columns for line in lines), lines
    rows = {line.split()[0]: line.split() for line in lines if line.strip()}
    assert [
        head
        for head in ("owner", "offset", "lag", "oldest", "deadline", "unsent", "dead")
        if head not in " ".join(lines[:4])
    ] == []
    age = rows["orders-by-customer"][3]
    assert rows["orders-by-customer"][1:] == ["0", "20", age, "s", "10", "min", "0", "0"]
    assert rows["in/0"] == ["in/0", "1", "20", "0", "20", age, "s", "10", "min", "0", "0"]
    assert rows["total"][1:3] == ["0", "20"]
    assert "owner 1: orders-by-customer-0-ip-10-0-12-200-1234567" in lines


def test_watch_of_one_agent_shows_that_one(file: str) -> None:
    worker(file, a_log("in", "out", "app.dead", partitions=3))
    screen = Screen(80, file, "--agent", "b")
    try:
        wait_until(lambda: any("other/0" in line for line in screen.lines), 30, "the first picture")
        text = "\n".join(screen.lines)
    finally:
        assert screen.close() == 0
    assert "orders-by-customer" not in text
