"""`sluicegate accept-gap`: says what it means, asks, and lets the partition go on."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening import changing
from sluicegate.streams.cli.opening.files import loaded
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import a_log, feed, shown
from tests.unit.engine.test_gaps import truncation

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  a: {from: in, aggregate: {count: 3}, to: {topic: out}}
"""
AcceptGap = Callable[..., Result]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = a_log("in", "out", "app.dead")
    monkeypatch.setattr(LogTopics, "log", made)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return made


@pytest.fixture
def file(tmp_path: Any) -> str:
    (tmp_path / "app.yaml").write_text(FILE)
    return str(tmp_path / "app.yaml")


@pytest.fixture
def accept_gap(file: str) -> AcceptGap:
    return lambda place, *more, **options: CliRunner().invoke(main, ["accept-gap", file, "a", place, *more], **options)


@pytest.fixture
def worker(file: str, log: Log) -> Driver:
    """Two groups are open, of which the topic has lost one."""
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    feed(log, ("x", 1), ("x", 2), ("x", 3), ("y", 4), ("z", 5))
    Driver(app.agents[0], store, log, ManualClock()).give(0).turns(4)
    truncation(log, store)  # type: ignore[arg-type]
    made = Driver(app.agents[0], store, log, ManualClock()).give(0).turns(2).later(6).turns(2)
    assert shown(made)[1]["in", 0] == ("halted", "log-truncated")
    return made


def test_it_says_what_it_means_asks_and_the_worker_goes_on(
    worker: Driver, accept_gap: AcceptGap, log: Log, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "terminal", lambda: True)
    needed = accept_gap("in/0", "--yes")
    assert (needed.exit_code, "2 open groups" in needed.stderr, "--forget accepts that" in needed.stderr) == (
        2,
        True,
        True,
    )
    refused = accept_gap("in/0", "--forget", input="n\n")
    assert (refused.exit_code, "Accept that?" in refused.stderr, "nothing was changed" in refused.stderr) == (
        2,
        True,
        True,
    )
    worker.later(6).turns(4)
    assert shown(worker)[1]["in", 0] == ("halted", "log-truncated")
    done = accept_gap("in/0", "--yes", "--forget", "--why", "the broker lost its disk", "--by", "ann", "--json")
    [gap] = json.loads(done.stdout)["accepted"]
    assert (gap["code"], gap["offset"], gap["era"], gap["groups_forgotten"]) == ("log-truncated", 3, 1, 2), done.stderr
    for _ in range(3):
        worker.later(6).turns(4)
    feed(log, ("y", 7), ("y", 7), ("y", 7))
    worker.turns(4)
    assert [json.loads(m.v or b"")["key"] for m in distinct(log, "out")] == ["x", "y"]
    changes = json.loads(CliRunner().invoke(main, ["audit", file, "--json"]).stdout)["changes"]
    assert [(change["who"], change["what"], change["agent"], change["why"]) for change in changes] == [
        ("ann", "accept-gap", "a", "the broker lost its disk")
    ]
    again = accept_gap("in/0", "--yes")
    assert (again.exit_code, "has no gap (any more)" in again.stderr) == (2, True), again.stderr


@pytest.mark.parametrize("place", ["in", "in/x", "other/0", "in/0/3"])
def test_what_is_no_partition_of_the_agent_is_refused(worker: Driver, accept_gap: AcceptGap, place: str) -> None:
    result = accept_gap(place, "--yes")
    assert (result.exit_code, "is not a partition that agent a reads; write in/0" in result.stderr) == (2, True), (
        result.stderr
    )


@pytest.fixture
def three(file: str, log: Log) -> Driver:
    """Three partitions are read; the topic has lost what 0 and 2 had read."""
    log.create("in", 3)
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    for number in range(3):
        feed(log, ("x", 1), ("x", 2), ("x", 3), number=number)
    Driver(app.agents[0], store, log, ManualClock()).give(0, 1, 2).turns(6)
    for number in (0, 2):
        del log.topics["in"][number][1:]
    return Driver(app.agents[0], store, log, ManualClock()).give(0, 1, 2).turns(4)


def halted(worker: Driver) -> set[int]:
    return {number for (_, number), (state, _) in shown(worker)[1].items() if state == "halted"}


def test_several_partitions_are_accepted_by_name_and_one_without_a_gap_is_said(
    three: Driver, accept_gap: AcceptGap
) -> None:
    assert halted(three) == {0, 2}
    result = accept_gap("in/0", "in/1", "in/2", "in/0", "--yes", "--why", "lost")
    assert (result.exit_code, result.stderr.count("has no gap (any more)")) == (2, 1), result.stderr
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["in/0", "in/2"]
    assert "in/1 has no gap" in result.stderr
    for _ in range(3):
        three.later(6).turns(4)
    assert halted(three) == set()


def test_all_accepts_each_partition_that_has_a_gap_or_none(three: Driver, accept_gap: AcceptGap, file: str) -> None:
    assert accept_gap("--all").exit_code == 2
    assert "--yes" in accept_gap("--all").stderr
    result = CliRunner().invoke(main, ["accept-gap", file, "a", "--all", "--yes", "--json"])
    assert (result.exit_code, [gap["place"] for gap in json.loads(result.stdout)["accepted"]]) == (
        0,
        ["in/0", "in/2"],
    ), result.stderr
    again = accept_gap("--all", "--yes")
    assert (again.exit_code, "no partition of agent a has a gap" in again.stderr) == (2, True)


@pytest.mark.parametrize("what", [[], ["in/0", "--all"], ["--all", "--truncated"]])
def test_the_partitions_are_named_or_all(three: Driver, file: str, what: list[str]) -> None:
    result = CliRunner().invoke(main, ["accept-gap", file, "a", *what, "--yes"])
    assert (result.exit_code, "name the partitions, or write --all" in result.stderr) == (2, True), result.stderr


def test_of_a_wiped_store_the_way_back_is_named_before_the_way_on(
    file: str, log: Log, accept_gap: AcceptGap, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    feed(log, ("x", 1), ("x", 2), ("x", 3), ("y", 4))
    Driver(app.agents[0], store, log, ManualClock()).give(0).turns(4)
    store.close()
    for rest in tmp_path.glob("state.db*"):
        rest.unlink()
    fresh = open_store(app.store, app.folder)
    fresh.migrate()
    worker = Driver(app.agents[0], fresh, log, ManualClock()).give(0).turns(4)
    assert shown(worker)[1]["in", 0] == ("halted", "store-wiped")
    for text in (capsys.readouterr().out, accept_gap("in/0").stderr):
        assert 0 < text.index("AGENT --rebuild") < text.index("sluicegate accept-gap`"), text
