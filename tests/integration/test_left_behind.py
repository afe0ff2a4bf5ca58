"""A run of a file without an agent, or without a topic, whose groups are open: it says so and refuses unless told."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.supervised.run import Run
from tests.waiting import wait_until

FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000}
store: sqlite:///state.db
dead_letters: NS.dead
http: {port: 0}
agents:
  a:
    from: NS.in
    start: earliest
    aggregate: {count: 10, timeout: {after: 1h, since: first}, compute: {n: count, total: {sum: amount}}}
    to: {topic: NS.out}
"""
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
RENAMED = ("  a:\n", "  b:\n")
OTHER_FILE = ("from: NS.in\n", "from: NS.in2\n")

Start = Callable[..., Run]


class Files:
    """The folder of the files, and the runs that a test started."""

    def __init__(self, folder: Path, kafka: str, ns: str) -> None:
        self.folder, self.kafka, self.ns = folder, kafka, ns
        self.runs: list[Run] = []

    def write(self, name: str, *changes: tuple[str, str]) -> str:
        text = FILE
        for old, new in changes:
            text = text.replace(old, new)
        path = self.folder / name
        path.write_text(text.replace("NS", self.ns).replace("KAFKA", self.kafka))
        return str(path)

    def run(self, path: str, *options: str) -> Run:
        self.runs.append(Run(SLUICEGATE, "run", path, *options))
        return self.runs[-1]

    def stop(self, run: Run) -> None:
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0

    def status(self, path: str, *options: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "COLUMNS": "200"}
        return subprocess.run(
            [SLUICEGATE, "status", path, *options], capture_output=True, text=True, timeout=60, env=environ
        )

    def document(self, path: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.status(path, "--json").stdout)
        return document


@pytest.fixture
def files(kafka: str, ns: str, make_topic: Callable[..., None], tmp_path: Path) -> Iterator[Files]:
    for name in ("in", "in2", "out", "dead"):
        make_topic(f"{ns}.{name}", 2)
    made = Files(tmp_path, kafka, ns)
    yield made
    for run in made.runs:
        run.close()


def with_open_groups(files: Files) -> Run:
    """A run of the file with an open group in either partition."""
    path = files.write("a.yaml")
    run = files.run(path)
    run.wait("partition.claimed", 2, timeout=40)
    producer = Producer({"bootstrap.servers": files.kafka, "enable.idempotence": True})
    for number in (0, 1):
        producer.produce(f"{files.ns}.in", b'{"amount": 1}', key=f"k{number}", partition=number)
    assert producer.flush(10) == 0
    wait_until(
        lambda: sum(row["open_groups"] or 0 for row in files.document(path)["partitions"]) == 2, 60, "two open groups"
    )
    return run


def test_a_renamed_agent_and_another_file_are_refused_until_told(files: Files) -> None:
    files.stop(with_open_groups(files))
    ns = files.ns
    text = f"1 open group in {ns}.in/0, 1 open group in {ns}.in/1"
    nobody = f"and no worker fires or sends what the store holds of it: {text}; run the file that has it"
    for change, what in ((RENAMED, "is not in this file"), (OTHER_FILE, f"no longer reads {ns}.in")):
        path = files.write("other.yaml", change)
        run = files.run(path)
        assert run.exit_code(40) == 2
        [refused] = run.events("run.refused")
        assert refused["error"] == f"agent a {what}, {nobody} until they are gone, or add --leave a"
        assert files.document(path)["left_behind"] == [
            {
                "agent": "a",
                "topic": f"{ns}.in",
                "partition": number,
                "owner": None,
                "open_groups": 1,
                "items": 0,
                "unsent": 0,
                "note": f"1 open group; agent a {what.replace(f'{ns}.in', 'this topic')}, it has no owner",
            }
            for number in (0, 1)
        ]
    result = files.run(files.write("other.yaml", RENAMED), "--leave", "a")
    result.wait("worker.running", timeout=40)
    [warned] = result.events("groups.left_behind")
    assert warned["text"].startswith("agent a is not in this file, and no worker fires")
    shown = files.status(str(files.folder / "other.yaml"))
    assert shown.returncode == 0
    assert f"{ns}.in/0 of a: 1 open group; agent a is not in this file, it has no owner" in shown.stdout
    files.stop(result)


def test_the_file_of_an_agent_that_another_run_works_on_starts(files: Files) -> None:
    """Two files may have agents of one app: only what no run goes on with is refused."""
    first = with_open_groups(files)
    path = files.write("b.yaml", RENAMED)
    second = files.run(path)
    second.wait("worker.running", timeout=40)
    assert second.events("groups.left_behind") == []
    [owner] = {row["owner"] for row in files.document(path)["left_behind"]}
    assert owner.startswith("a-0-")
    assert f"owner {owner}" in files.status(path).stdout
    assert "left_behind" in files.document(path)
    files.stop(first)
    files.stop(second)


def test_the_same_file_starts_again(files: Files) -> None:
    files.stop(with_open_groups(files))
    again = files.run(str(files.folder / "a.yaml"))
    again.wait("partition.claimed", 2, timeout=40)
    assert files.document(str(files.folder / "a.yaml"))["left_behind"] == []
    files.stop(again)
