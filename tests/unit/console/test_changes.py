"""The changes of the console: a reason, the code of the command, the journal; and nothing for strangers."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from sluicegate.streams.observe.http import CHANGE_HEADER
from tests.unit.cli.log_topics import LogTopics
from tests.unit.console.desk import ConsoleClient, a_console, a_driver
from tests.unit.engine.driver import Driver, Log, distinct
from tests.unit.engine.scene import feed

JSON = "application/json"


def name(key: str) -> str:
    return "base64:" + base64.b64encode(key.encode()).decode()


X = {"agent": "a", "key": name("x"), "place": "in/0"}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ConsoleClient, Driver, Log]]:
    driver, log = a_driver(tmp_path)
    monkeypatch.setattr(LogTopics, "log", log)
    with a_console(tmp_path) as client:
        yield client, driver, log


def audited(tmp_path: Path) -> list[tuple[str, str, str, str]]:
    changes = json.loads(CliRunner().invoke(main, ["audit", str(tmp_path / "app.yaml"), "--json"]).stdout)["changes"]
    return [(change["what"], change["key"], change["why"], change["who"]) for change in changes]


def test_a_group_is_fired_once_by_its_owner_and_the_reason_is_kept(scene: Any, tmp_path: Path) -> None:
    client, driver, log = scene
    status, answer = client.change("fire", **X, why="the shop closes", by="anne")
    assert (status, answer["fire"]["key"]) == (200, "x")
    feed(log, ("y", 2))
    driver.turns().later(5).turns(20)
    [result] = [json.loads(message.v) for message in distinct(log, "out")]
    assert (result["key"], result["reason"], result["count"], result["total"]) == ("x", "manual", 2, 12)
    [(what, key, why, who)] = audited(tmp_path)
    assert (what, key, why, who.startswith("anne@"), who.endswith("(console)")) == (
        "groups fire",
        "x",
        "the shop closes",
        True,
        True,
    )
    assert [change["what"] for change in client.ask("audit")["changes"]] == ["groups fire"]


def test_a_group_is_dropped_and_the_list_knows_it_at_once(scene: Any, tmp_path: Path) -> None:
    client, driver, log = scene
    assert len(client.ask("groups?agent=a")["groups"]) == 2
    assert client.change("drop", **X, why="a test")[0] == 200
    assert [group["text"] for group in client.ask("groups?agent=a")["groups"]] != ["x"]
    assert client.ask("groups?agent=a")["open"] == 1
    driver.turns().later(5).turns(20)
    assert distinct(log, "out") == []
    assert audited(tmp_path)[0][:3] == ("groups drop", "x", "a test")


def test_dead_rows_and_letters_are_retried_once(scene: Any, tmp_path: Path) -> None:
    client, driver, log = scene
    log.append("in", 0, b"k", b"<b>bad")
    driver.turns(6).later(5).turns(4)
    [letter] = client.ask("dead")["dead"]
    assert (letter["id"], "value" in letter) == ("in/0/3", False)
    assert client.ask("payload?agent=a&id=in/0/3")["value"] == "<b>bad"
    wanted = {"agent": "a", "ids": ["in/0/3"], "why": "mended"}
    done = {"rows": 0, "sent": 1, "groups": 0, "found": 0, "refused": [], "left_out": []}
    assert client.change("retry", **wanted) == (200, done)
    assert client.change("retry", **wanted)[1]["refused"] == ["in/0/3"]
    assert [record.v for record in log.topics["in"][0]][3:] == [b"<b>bad", b"<b>bad"]
    assert ("dead retry", "in/0/3", "mended") in [change[:3] for change in audited(tmp_path)]


def dead_of_two_causes(driver: Driver, log: Log) -> None:
    for value in (b"bad", b"worse", b'{"other": 1}'):
        log.append("in", 0, b"k", value)
    driver.turns(6).later(5).turns(4)


def test_all_of_a_cause_are_retried_and_no_other(scene: Any) -> None:
    client, driver, log = scene
    dead_of_two_causes(driver, log)
    [many, one] = client.ask("dead")["causes"]
    assert (many["size"], many["agent"], one["size"]) == (2, "a", 1)
    outcome = client.change("retry", agent="a", cause=many["cause"], why="mended")[1]
    assert (outcome["sent"], outcome["refused"]) == (2, [])
    assert [cause["cause"] for cause in client.ask("dead")["causes"]] == [one["cause"]]
    assert client.ask("dead")["found"] == 1
    assert client.ask("dead?retried=yes")["found"] == 3
    outcome = client.change("retry", agent="a", cause=many["cause"], why="mended")[1]
    assert (outcome["sent"], outcome["refused"]) == (0, [])
    assert client.change("retry", agent="a", cause="00000000", why="mended")[0] == 400


def test_the_dead_of_a_cause_are_dropped_with_their_reason(scene: Any, tmp_path: Path) -> None:
    client, driver, log = scene
    dead_of_two_causes(driver, log)
    cause = client.ask("dead")["causes"][0]["cause"]
    assert client.change("dead/drop", agent="a", cause=cause, why="nobody needs them") == (
        200,
        {"rows": 0, "letters": 2},
    )
    assert client.ask("dead")["found"] == 1
    assert client.change("dead/drop", agent="a", ids=["in/0/5"], why="a test")[1]["letters"] == 1
    assert [change[0] for change in audited(tmp_path)] == ["dead drop"] * 3


def test_another_reader_of_the_topic_is_asked_about_first(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client, driver, log = scene
    log.append("in", 0, b"k", b"<b>bad")
    driver.turns(6).later(5).turns(4)
    monkeypatch.setattr(LogTopics, "groups", {"billing": ""})
    wanted = {"agent": "a", "ids": ["in/0/3"], "why": "mended"}
    assert "billing" in client.change("retry", **wanted)[1]["ask"]
    assert len(log.topics["in"][0]) == 4
    assert client.change("retry", **wanted, yes=True)[1]["sent"] == 1


@pytest.mark.parametrize("why", [{}, {"why": ""}, {"why": "  "}, {"why": 3}])
@pytest.mark.parametrize("path", ["fire", "drop", "retry", "dead/drop", "outbox/retry", "outbox/drop"])
def test_a_change_without_a_reason_is_refused(scene: Any, tmp_path: Path, path: str, why: dict[str, Any]) -> None:
    status, answer = scene[0].change(path, **X, ids=["in/0/3"], **why)
    assert (status, "why" in answer["error"]) == (400, True)
    assert audited(tmp_path) == []


STRANGERS = {
    "a form": {"Content-Type": "text/plain"},
    "a form with fields": {"Content-Type": "application/x-www-form-urlencoded"},
    "no secret": {CHANGE_HEADER: ""},
    "a wrong secret": {CHANGE_HEADER: "x" * 43},
    "another origin": {"Origin": "http://evil.example"},
    "no origin at all": {"Origin": "null"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "another host": {"Host": "evil.example", "Origin": "http://evil.example"},
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_change_of_another_site_is_refused(scene: Any, tmp_path: Path, stranger: str) -> None:
    client, _, _ = scene
    good = {"Content-Type": JSON, CHANGE_HEADER: client.secret, "Origin": client.origin}
    body = json.dumps({**X, "why": "CSRF"}).encode()
    status, _, _ = client.send("POST", "/console/fire", body, **{**good, **STRANGERS[stranger]})
    assert (status in (403, 415), audited(tmp_path)) == (True, [])
    assert client.send("POST", "/console/fire", body, **good)[0] == 200


def test_a_browser_that_asks_first_gets_no_permission(scene: Any) -> None:
    status, _, headers = scene[0].send(
        "OPTIONS", "/console/fire", Origin="http://evil.example", Access_Control_Request_Method="POST"
    )
    assert (status, [name for name in headers if name.startswith("Access-Control")]) == (405, [])


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"null"])
def test_a_change_that_is_no_json_object_is_refused(scene: Any, body: bytes) -> None:
    client, _, _ = scene
    good = {"Content-Type": JSON, CHANGE_HEADER: client.secret}
    assert client.send("POST", "/console/fire", body, **good)[0] == 400


def test_a_change_is_no_question(scene: Any) -> None:
    assert scene[0].send("GET", "/console/fire?agent=a")[0] == 404
    assert scene[0].send("POST", "/console/groups", b"{}")[0] == 405


def test_with_a_token_everything_but_the_page_itself_needs_it(tmp_path: Path) -> None:
    a_driver(tmp_path)
    with a_console(tmp_path, token="s3cret") as client:
        for path in ("/", "/console.js", "/console.css", *client.port.calls.files):
            assert client.send("GET", path)[0] == 200
        paths = [*client.port.calls.questions, *client.port.calls.changes]
        for path in paths:
            method = "POST" if path in client.port.calls.changes else "GET"
            good = {"Content-Type": JSON, CHANGE_HEADER: client.secret}
            assert client.send(method, path, b"{}" if method == "POST" else None, **good)[0] == 401
        assert client.send("GET", "/console/session", Authorization="Bearer s3cret")[0] == 200
