"""`sluicegate dead`: dead rows in the store and dead letters in their topic."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.errors import SystemNotReady
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, feed

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
agents:
  a: {from: in, aggregate: {count: 1}, to: {topic: out}}
  b: {from: other, aggregate: {count: 1}, to: {topic: out}}
"""
Dead = Callable[..., Result]
DONE = {"rows": 0, "sent": 0, "groups": 0, "found": 0, "refused": [], "left_out": []}


@pytest.fixture
def file(tmp_path: Any) -> str:
    (tmp_path / "app.yaml").write_text(FILE)
    return str(tmp_path / "app.yaml")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    made = a_log("in", "other", "out", "app.dead")
    monkeypatch.setattr(LogTopics, "log", made)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return made


@pytest.fixture
def dead(file: str) -> Dead:
    return lambda what, *more: CliRunner().invoke(main, ["dead", what, file, *more])


@pytest.fixture
def driver(file: str, log: Log) -> Driver:
    """Two bad records and a result that the broker refuses."""
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    made = Driver(app.agents[0], store, log, ManualClock()).give(0)
    made.producer.fate = lambda row: "rejected" if row.key == b"huge" else "delivered"
    log.append("in", 0, b"k", b"{bad", [("h", b"1")])
    feed(log, ("huge", 1))
    log.append("in", 0, b"k", b"secret")
    made.turns(6).later(5).turns(4)
    return made


def listed(dead: Dead, *more: str) -> list[tuple[str, str, str]]:
    return [
        (letter["kind"], letter["reason"], letter["id"])
        for letter in json.loads(dead("ls", *more, "--json").stdout)["dead"]
    ]


def test_rows_and_letters_are_listed_shown_and_retried(driver: Driver, dead: Dead, log: Log, file: str) -> None:
    [(_, _, row), *records] = listed(dead)
    assert records == [("record", "undecodable", "in/0/0"), ("record", "undecodable", "in/0/2")]
    assert (listed(dead, "a"), listed(dead, "b")) == (listed(dead), [])
    assert "in/0/2" in (table := dead("ls").stdout), table
    assert "secret" not in table
    shown = json.loads(dead("show", "a", "in/0/0", "--json").stdout)
    assert (shown["offset"], {"name": "h", "value": "1"} in shown["headers"], "value" in shown) == (0, True, False)
    assert json.loads(dead("show", "a", "in/0/2", "--payload", "--json").stdout)["value"] == "secret"
    assert json.loads(dead("show", "a", row, "--payload", "--json").stdout)["key"] == "huge"
    assert "rejected" in dead("show", "a", row).stdout
    assert dead("show", row, "--json").stdout == dead("show", "a", row, "--json").stdout
    done = dead("retry", "a", "--all", "--why", "mended", "--by", "ann", "--json")
    assert json.loads(done.stdout) == DONE | {"rows": 1, "sent": 2}, done.stderr
    driver.producer.fate = lambda row: "delivered"
    driver.later(10).turns(4).later(5).turns(8)
    assert [m.k for m in log.topics["out"][0]] == [b"huge"]
    assert [m.v for m in log.topics["in"][0]][-2:] == [b"{bad", b"secret"]
    changes = json.loads(CliRunner().invoke(main, ["audit", file, "--json"]).stdout)["changes"]
    assert sorted(
        {
            (change["who"], change["what"], change["key"], change["why"])
            for change in changes
            if change["what"] == "dead retry"
        }
    ) == [
        ("ann", "dead retry", row, "mended"),
        ("ann", "dead retry", "in/0/0", "mended"),
        ("ann", "dead retry", "in/0/2", "mended"),
    ]


def test_a_second_retry_says_that_it_was(driver: Driver, dead: Dead) -> None:
    assert dead("retry", "a", "in/0/0").stdout == "1 record sent\n"
    second = dead("retry", "a", "in/0/0")
    assert (second.exit_code, second.stdout) == (5, "nothing was sent\n")
    assert "in/0/0 was retried before" in second.stderr
    assert "1 record sent" in dead("retry", "a", "in/0/0", "--again").stdout
    [(_, _, row), *_] = listed(dead)
    assert json.loads(dead("retry", "a", row, "--json").stdout)["rows"] == 1
    again = json.loads(dead("retry", "a", row, "in/0/2", "--json").stdout)
    assert again == DONE | {"sent": 1, "refused": [row]}


def test_a_record_that_is_gone_from_its_topic_is_named_and_the_others_are_sent(
    driver: Driver, dead: Dead, log: Log
) -> None:
    log.append("in", 0, b"k", b"[" * 3_000_000)
    driver.later(5).turns(6)
    log.append("in", 0, b"k", b"after it")
    del log.topics["in"][0][-2]
    log.low["in", 0] = 4
    done = dead("retry", "a", "--all")
    assert (done.exit_code, done.stdout[:38]) == (4, "1 row in the outbox again, 2 records s"), done.output
    why = "the letter has only the beginning of the record (3000000 bytes), and the record is gone from its topic"
    assert f"sluicegate: in/0/3 was left out: {why}: it cannot be sent" in done.stderr
    assert [letter["retried"] for letter in json.loads(dead("ls", "--all", "--json").stdout)["dead"]] == [
        True,
        True,
        False,
    ]


def test_only_the_newest_are_looked_at_and_it_is_said(driver: Driver, dead: Dead) -> None:
    result = dead("ls", "--limit", "1")
    assert ("in/0/2" in result.stdout, "in/0/0" in result.stdout) == (True, False)
    assert "not looked at: 1 older record;" in result.stderr


def test_without_kafka_rows_are_shown_and_retried_all_the_same(
    driver: Driver, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(_, _, row), *_] = listed(dead)
    monkeypatch.undo()
    result = dead("ls")
    assert (result.exit_code, row in result.stdout, "dead letters cannot be read" in result.stderr) == (
        3,
        True,
        True,
    ), result.stderr
    assert dead("retry", "a", "--all").exit_code == 3
    assert dead("retry", "a", row).stdout.startswith("1 row in the outbox again")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (("show", "a", "in/0/7"), "no dead letter and no dead row has the id in/0/7"),
        (("show", "x", "in/0/7"), "there is no agent 'x'"),
        (("retry", "a"), "name what to change"),
        (("retry", "a", "in/0/0", "--all"), "name what to change"),
        (("retry", "a", "in/0/0", "in/0/7"), "no dead letter and no dead row has the id in/0/7"),
        (("ls", "x"), "there is no agent 'x'"),
    ],
)
def test_mistakes_are_usage_errors_and_nothing_is_sent(
    driver: Driver, dead: Dead, log: Log, what: tuple[str, ...], text: str
) -> None:
    result = dead(*what)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr
    assert len(log.topics["in"][0]) == 3


OURS = '["sluicegate", 3, "incarnation"]'


def test_readers_that_are_not_ours_are_named_and_nothing_is_sent_without_a_yes(
    driver: Driver, dead: Dead, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogTopics, "groups", {"app.a": OURS, "billing": "", "other.app": OURS})
    refused = dead("retry", "a", "in/0/0")
    assert refused.exit_code == 2
    assert "in is also read by billing, no agent of Sluicegate: it sees 1 record again" in refused.stderr
    assert "--yes" in refused.stderr
    assert len(log.topics["in"][0]) == 3
    assert "1 record sent" in dead("retry", "a", "in/0/0", "--yes").stdout


def test_where_the_readers_cannot_be_told_a_person_decides(
    driver: Driver, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> dict[str, str]:
        raise SystemNotReady("Kafka: listing consumer groups failed: not allowed")

    monkeypatch.setattr(LogTopics, "readers", refused)
    result = dead("retry", "a", "in/0/0")
    assert (result.exit_code, "not allowed" in result.stderr, "--yes" in result.stderr) == (2, True, True)
    assert "1 record sent" in dead("retry", "a", "in/0/0", "--yes").stdout


def test_letters_that_were_retried_or_dropped_are_listed_on_demand(driver: Driver, dead: Dead) -> None:
    everything = listed(dead)
    [row, _, second] = everything
    assert dead("retry", "a", "in/0/0").exit_code == 0
    assert (listed(dead), listed(dead, "--all")) == ([row, second], everything)
    assert "retried" not in dead("ls").stdout
    assert "retried" in dead("ls", "--all").stdout
    causes = json.loads(dead("ls", "--by", "cause", "--json").stdout)["causes"]
    assert sorted(cause["size"] for cause in causes) == [1, 1]
    assert dead("drop", "a", "in/0/2", "--yes").exit_code == 0
    assert (listed(dead), listed(dead, "--all")) == ([row], everything)


def test_a_retry_of_many_is_one_line_of_the_audit(driver: Driver, dead: Dead, file: str) -> None:
    assert dead("retry", "a", "in/0/0", "in/0/2", "--by", "ann").exit_code == 0
    audit = CliRunner().invoke(main, ["audit", file]).stdout
    lines = [re.sub(" +", " ", line[line.index("dead") :]).rstrip() for line in audit.splitlines() if " ann " in line]
    assert lines == ["dead retry in/0/0 and 1 more", "dead retry sent in/0/0 and 1 more"]
