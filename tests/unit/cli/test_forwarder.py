"""The commands with an agent that forwards: what they show, and what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.watching import progress
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import a_log

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
agents:
  payments:
    from: in
    where: default(amount, 1) > 0
    to: [{topic: large, where: amount >= 100, continue: true}, {topic: eu, where: currency == "EUR"}]
  other: {from: in, to: {topic: all}}
"""
Command = Callable[..., Result]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = a_log("in", "large", "eu", "all", "app.dead")
    monkeypatch.setattr(LogTopics, "log", made)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return made


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "app.yaml").write_text(FILE)
    app = loaded(str(tmp_path / "app.yaml"))
    open_store(app.store, app.folder).migrate()
    return str(tmp_path / "app.yaml")


@pytest.fixture
def command(file: str) -> Command:
    """`groups ls x` is `sluicegate groups ls FILE x`."""
    return lambda names, *more: CliRunner().invoke(main, [*names.split(), file, *more])


def worker(file: str, log: Log, agent: int = 0) -> Driver:
    app = loaded(file)
    return Driver(app.agents[agent], open_store(app.store, app.folder), log, ManualClock()).give(0)


@pytest.fixture
def driver(file: str, log: Log) -> Driver:
    """Offset 1 goes to two topics, 2 is left out, 3 is unrouted, 4 has no answer."""
    for value in (
        {"amount": 1, "currency": "EUR"},
        {"amount": 100, "currency": "EUR"},
        {"amount": 0},
        {"amount": 1, "currency": "USD"},
        {"currency": "EUR"},
    ):
        log.append("in", 0, b"k", json.dumps(value).encode())
    return worker(file, log).turns(6).later(10).turns(4)


@pytest.mark.parametrize("what", [["ls"], ["show", "k"], ["why", "k"], ["fire", "k"], ["drop", "k", "--yes"]])
def test_it_has_no_groups(file: str, command: Command, what: list[str]) -> None:
    done = command(f"groups {what[0]}", "payments", *what[1:])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "agent payments has no groups: it forwards each record; only an agent with `aggregate` has" in done.stderr


def test_explain_names_the_record_of_each_output(driver: Driver, log: Log, command: Command) -> None:
    outputs = [("large", 0, 1), ("eu", 0, 0), ("eu", 1, 1), ("app.dead", 0, 3), ("app.dead", 1, 4)]
    assert sum(len(log.topics[topic][0]) for topic in ("large", "eu", "app.dead")) == len(outputs)
    for topic, at, offset in outputs:
        id = header(log.topics[topic][0][at], "sluicegate-id") or ""
        document = json.loads((done := command("explain", id, "--json")).stdout)
        shown = {"agent": "payments", "topic": "in", "partition": 0, "offsets": [offset], "notes": [], "complete": True}
        assert shown.items() <= document.items(), done.output


def test_a_dead_letter_that_is_retried_is_forwarded_once_and_by_its_agent_alone(
    driver: Driver, log: Log, file: str, command: Command
) -> None:
    listed = json.loads(command("dead ls", "payments", "--json").stdout)["dead"]
    assert [(letter["reason"], letter["id"]) for letter in listed] == [
        ("unrouted", "in/0/3"),
        ("expression-failed", "in/0/4"),
    ]
    Path(file).write_text(FILE.replace('currency == "EUR"', "has(currency)"))
    done = command("dead retry", "payments", "in/0/3", "--json")
    assert json.loads(done.stdout)["sent"] == 1, done.output
    worker(file, log).turns(6)
    worker(file, log, 1).turns(6)
    assert [json.loads(message.v or b"")["currency"] for message in log.topics["eu"][0]] == ["EUR", "EUR", "USD"]
    names = {name for name, _ in log.topics["eu"][0][2].h or ()}
    assert not {name for name in names if "retried" in name or "dead" in name}
    assert len(log.topics["all"][0]) == 5
    assert "in/0/3 was retried before" in command("dead retry", "payments", "in/0/3").stderr


def test_status_shows_its_progress_and_no_groups(driver: Driver, file: str) -> None:
    app = loaded(file)
    status = progress.status(app, open_store(app.store, app.folder), 0.3, letters.Counts(app, 100))
    [row] = status.partitions
    assert (row.agent, row.owner, row.offset, row.unsent) == ("payments", "member", 5, 0)
    assert (row.open_groups, row.oldest, row.next_deadline, row.note) == (None, None, None, None)


def test_metrics_count_what_it_took_and_what_each_clause_answered(driver: Driver) -> None:
    results: dict[str, Any] = {}
    for name, labels, value in driver.worker._parts.meter.snapshot():
        results.setdefault(name, {})[labels] = value
    assert results["expressions"] == {
        ("where", "true"): 4,
        ("where", "false"): 1,
        ("to.large", "true"): 1,
        ("to.large", "false"): 2,
        ("to.large", "failed"): 1,
        ("to.eu", "true"): 2,
        ("to.eu", "false"): 1,
    }
