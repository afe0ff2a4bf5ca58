"""`sluicegate parked`: what waits for a person, and letting it go, on a store that a run has left."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main
from sluicegate.streams.cli.letters import Counts
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.cli.watching.progress import PartitionProgress, status
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import a_log, feed

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  a:
    from: in
    handler: tests.unit.engine.handlers:forward
    concurrency: 2
    retry: {attempts: 1}
    then: park
    to: {topic: out}
"""


@pytest.fixture
def file(tmp_path: Any) -> str:
    (tmp_path / "app.yaml").write_text(FILE)
    return str(tmp_path / "app.yaml")


@pytest.fixture
def parked(file: str) -> Callable[..., Result]:
    return lambda what, *more: CliRunner().invoke(main, ["parked", what, file, "a", *more])


def driver(file: str, log: Log) -> Driver:
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    return Driver(app.agents[0], store, log, ManualClock()).give(0)


def status_of(file: str) -> PartitionProgress:
    app = loaded(file)
    [row] = status(app, open_store(app.store, app.folder), 0.1, Counts(app, 10)).partitions
    return row


def test_it_lists_what_waits_and_lets_go_what_is_named(file: str, parked: Callable[..., Result]) -> None:
    log = a_log("in", "out", "app.dead")
    handlers.fails.update({0: [ValueError()], 1: [ValueError()]})
    feed(log, ("x", 0), ("y", 1), ("z", 2))
    driver(file, log).turns(8)
    listed = json.loads(parked("ls", "--json").stdout)["parked"]
    error = "the handler raised ValueError (tests/unit/engine/handlers.py:34 in _maybe_fail) (attempt 1)"
    assert listed == [
        {"place": f"in/0/{n}", "kind": "message", "key": key, "attempts": 1, "error": error}
        for n, key in enumerate("xy")
    ]
    assert "in/0/1" in parked("ls").stdout
    assert status_of(file).note == "2 parked: see `sluicegate parked ls`"
    assert (done := parked("retry", "in/0/1")).stdout == "1 item will be retried\n", done.stderr
    assert [record["place"] for record in json.loads(parked("ls", "--json").stdout)["parked"]] == ["in/0/0"]
    driver(file, log).turns(8)
    assert [json.loads(message.v or b"")["doubled"] for message in distinct(log, "out")] == [4, 2]
    assert parked("retry").stdout == "1 item will be retried\n"


def test_a_place_at_which_nothing_waits_is_refused_and_nothing_is_let_go(
    file: str, parked: Callable[..., Result]
) -> None:
    log = a_log("in", "out", "app.dead")
    handlers.fails[0] = [ValueError()]
    feed(log, ("x", 0))
    driver(file, log).turns(8)
    result = parked("retry", "in/0/7", "in/0/0")
    assert (result.exit_code, result.stderr.strip()) == (
        2,
        "sluicegate: nothing is parked at in/0/7; `sluicegate parked ls` lists the parked items",
    )
    assert len(json.loads(parked("ls", "--json").stdout)["parked"]) == 1


def test_an_agent_that_the_file_does_not_have_is_refused(file: str) -> None:
    result = CliRunner().invoke(main, ["parked", "ls", file, "b"])
    assert (result.exit_code, result.stderr.strip()) == (2, "sluicegate: there is no agent 'b'; the file has a")
