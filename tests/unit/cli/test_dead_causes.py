"""Dead letters by their cause: listed, retried, archived and dropped by it, or by an expression."""

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.streams.cli import letters, main
from sluicegate.streams.operations.dead import dead_causes, dead_letters
from tests.unit.cli.dead_scene import Scene
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import Log
from tests.unit.engine.scene import a_log

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
agents:
  a:
    from: in
    where: amount > 0
    aggregate: {count: 1}
    to: {topic: out}
"""
Dead = Callable[..., Result]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    topics = a_log("in", "out", "app.dead")
    monkeypatch.setattr(LogTopics, "log", topics)
    monkeypatch.setattr(letters, "BrokerTopics", LogTopics)
    return topics


@pytest.fixture
def scene(tmp_path: Path, log: Log) -> Scene:
    """Offsets 0 to 2 lack the field, 3 and 4 are not JSON, 5 is a result that the broker refuses."""
    scene = Scene(tmp_path, FILE)
    scene.driver.producer.fate = lambda row: "rejected" if row.key == b"huge" else "delivered"
    for number in range(3):
        log.append("in", 0, b"k%d" % number, json.dumps({"order": number}).encode())
    for value in (b"{bad", b"{worse"):
        log.append("in", 0, b"k", value, [("h", b"\xff")])
    log.append("in", 0, b"huge", b'{"amount": 1}')
    scene.driver.turns(6).later(5).turns(4)
    return scene


@pytest.fixture
def dead(scene: Scene) -> Dead:
    return scene.dead


def listed(dead: Dead, *more: str) -> dict[str, str]:
    """The cause of each, by its id."""
    return {item["id"]: item["cause"] for item in json.loads(dead("ls", *more, "--json").stdout)["dead"]}


def causes(dead: Dead) -> list[dict[str, Any]]:
    return list(json.loads(dead("ls", "--by", "cause", "--json").stdout)["causes"])


def test_what_failed_alike_is_one_cause_with_its_number_and_an_example(dead: Dead) -> None:
    assert [
        (summary["size"], summary["stage"], summary["reason"], summary["id"][:4]) for summary in causes(dead)[:2]
    ] == [(3, "expression", "expression-failed", "in/0"), (2, "decode", "undecodable", "in/0")]
    assert [summary["reason"] for summary in causes(dead)[2:]] == ["rejected"]
    table = dead("ls", "--by", "cause").stdout
    assert all(summary["cause"] in table for summary in causes(dead))
    [fault, *_] = causes(dead)
    assert {id for id, cause in listed(dead).items() if cause == fault["cause"]} == {"in/0/0", "in/0/1", "in/0/2"}
    assert listed(dead, "--cause", fault["cause"]).keys() == {"in/0/0", "in/0/1", "in/0/2"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("amount: 5 is not a text", "amount: -7.5 is not a text"),
        ("KeyError: 'anna'", "KeyError: 'otto'"),
        ("no order 3f2b8c1e-5d7a-4b1e-9c3d-000000000001", "no order 00000000-5d7a-4b1e-9c3d-3f2b8c1e0001"),
        ("timeout after 3 s\nTraceback: a", "timeout after 4 s\nTraceback: b"),
    ],
)
def test_what_differs_from_record_to_record_is_no_part_of_the_cause(first: str, second: str) -> None:
    assert dead_causes.pattern(first) == dead_causes.pattern(second)
    assert dead_causes.pattern(first) != dead_causes.pattern("refused: " + first)


def test_an_error_of_any_size_takes_little_time() -> None:
    assert len(dead_causes.pattern("'\\" * 1_000_000 + "1" * 1_000_000)) <= dead_causes.LONGEST


def test_a_cause_is_retried_and_the_others_stay(dead: Dead, log: Log) -> None:
    undecodable = next(summary["cause"] for summary in causes(dead) if summary["reason"] == "undecodable")
    done = json.loads(dead("retry", "a", "--cause", undecodable, "--json").stdout)
    assert (done["sent"], done["rows"]) == (2, 0)
    assert [message.v for message in log.topics["in"][0]][-2:] == [b"{bad", b"{worse"]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ('reason == "undecodable"', {"in/0/3", "in/0/4"}),
        ("value.order >= 1", {"in/0/1", "in/0/2"}),
        ('key == "k0" || offset == 4', {"in/0/0", "in/0/4"}),
        ('stage == "produce"', {"row"}),
        ('kind == "record" && partition == 0 && age > 0.0', {f"in/0/{offset}" for offset in range(5)}),
        ('kind == "row" && attempts == 1', {"row"}),
    ],
)
def test_an_expression_chooses(dead: Dead, where: str, ids: set[str]) -> None:
    chosen = {id if id.startswith("in/") else "row" for id in listed(dead, "--where", where)}
    assert chosen == ids


def test_a_value_of_any_bytes_is_null(scene: Scene, dead: Dead, log: Log) -> None:
    log.append("in", 0, b"k", b'{"a": "\xff"}')
    scene.driver.later(5).turns(6)
    assert listed(dead, "--where", "value == null && offset > 4").keys() == {"in/0/6"}


def test_those_without_an_answer_are_left_out_and_counted(dead: Dead) -> None:
    result = dead("ls", "--where", "value.order == 1")
    assert "in/0/1" in result.stdout
    assert "the expression has no answer for them: 3" in result.stderr


@pytest.mark.parametrize(
    ("where", "problem"),
    [("reason ==", "column"), ("reasom == 'x'", "did you mean reason?"), ("offset", "must be boolean")],
)
def test_a_wrong_expression_is_a_usage_error(dead: Dead, where: str, problem: str) -> None:
    result = dead("drop", "a", "--where", where, "--yes")
    assert (result.exit_code, problem in result.stderr) == (2, True), result.stderr
    assert len(listed(dead)) == 6


def test_a_cause_that_nothing_has_is_a_usage_error(dead: Dead) -> None:
    result = dead("retry", "a", "--cause", "00000000")
    assert (result.exit_code, "no dead letter and no dead row has the cause 00000000" in result.stderr) == (2, True)


def test_what_is_dropped_is_listed_no_more_and_noted(dead: Dead, log: Log, tmp_path: Path) -> None:
    before = listed(dead)
    asked = dead("drop", "a", "--all")
    assert (asked.exit_code, "1 row and 5 letters of a will be dropped" in asked.stderr) == (2, True)
    assert listed(dead) == before
    done = dead("drop", "a", "in/0/0", "--yes", "--why", "a test", "--by", "ann")
    assert (done.exit_code, done.stdout) == (0, "0 rows and 1 letter dropped\n")
    assert listed(dead).keys() == before.keys() - {"in/0/0"}
    assert listed(dead, "--all") == before
    assert json.loads(dead("drop", "a", "in/0/1", "--yes", "--json").stdout) == {"rows": 0, "letters": 1}
    assert dead("drop", "a", "--all", "--yes").stdout == "1 row and 3 letters dropped\n"
    assert listed(dead) == {}
    assert [message.v for message in log.topics["out"][0]] == []
    audit = CliRunner().invoke(main, ["audit", str(tmp_path / "app.yaml"), "--json"]).stdout
    [change] = [change for change in json.loads(audit)["changes"] if change["who"] == "ann"]
    assert (change["what"], change["key"], change["why"], change["agent"]) == ("dead drop", "in/0/0", "a test", "a")


def test_a_letter_with_a_forged_id_that_is_dropped_does_not_hide_the_genuine_one(
    dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = dead_letters.letters

    def forged_first(*arguments: Any) -> Any:
        genuine = list(read(*arguments))
        return [genuine[0]._replace(proven=False, offset=99), *genuine]

    monkeypatch.setattr(dead_letters, "letters", forged_first)
    assert {"in/0/99", "in/0/0"} <= listed(dead).keys()
    dead("drop", "a", "in/0/99", "--yes")
    assert {"in/0/99", "in/0/0"} & listed(dead).keys() == {"in/0/0"}


def test_the_archive_has_all_of_it_and_what_is_in_it_is_dropped(dead: Dead, tmp_path: Path) -> None:
    path = tmp_path / "archive.jsonl"
    done = dead("archive", "a", "--to", str(path), "--all")
    assert (done.exit_code, listed(dead)) == (0, {}), done.stderr
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    assert [b64decode(document["value"]) for document in documents if document["reason"] == "undecodable"] == [
        b"{bad",
        b"{worse",
    ]
    header = next(header for header in documents[-1]["headers"] if header["name"] == "h")
    assert b64decode(header["value"]) == b"\xff"
    assert {document["kind"] for document in documents} == {"row", "record"}


@pytest.mark.parametrize("name", ["app.yaml", "no-folder/archive.jsonl"])
def test_nothing_is_dropped_where_the_archive_cannot_be_written(dead: Dead, tmp_path: Path, name: str) -> None:
    result = dead("archive", "a", "--to", str(tmp_path / name), "--all")
    assert (result.exit_code, len(listed(dead)), (tmp_path / "app.yaml").read_text()) == (2, 6, FILE), result.stderr
