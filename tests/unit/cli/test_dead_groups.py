"""`sluicegate dead retry` of completed groups whose handler failed: it is called again, exactly once."""

import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.streams.cli import letters, main
from sluicegate.streams.cli.letters import Counts
from sluicegate.streams.cli.terminal.output import print_table
from sluicegate.streams.cli.watching import progress
from sluicegate.streams.errors import PersistenceError
from tests.unit.cli.dead_scene import Scene, without_tracebacks
from tests.unit.cli.log_topics import LogTopics
from tests.unit.engine.driver import distinct, header
from tests.unit.engine.scene import a_log

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
start_timeout: 300ms
http: false
agents:
  readings:
    from: in
    aggregate: {count: 5, compute: {rows: collect, total: {sum: amount}}}
    handler: reading:HANDLER
    session: SESSION
    concurrency: CONCURRENCY
    retry: {attempts: 2, backoff: 1s..1s}
    to: {topic: out}
"""
MODULE = """\
from sluicegate.connectors.sessions import *
import sqlite3

from sqlalchemy import text

calls = []
INSERT = text("insert into readings (id, amount) values (:id, :amount)")


def told(rows, batch, id):
    value = batch.value
    fields = {"total": value["total"], "final": value.get("final")}
    return {"stored": len(rows), "reason": batch.reason, "id": id, **fields}


def store(rows, id, session, send, batch):
    calls.append(id)
    session.connection.execute(INSERT, [{"id": row["id"], "amount": row["amount"]} for row in rows])
    send(told(rows, batch, id))


def remote(rows, id, send, batch):
    calls.append(id)
    with open("mended"):
        send(told(rows, batch, id))


def choosy(rows, send):
    from sluicegate import BadItems

    bad = [index for index, row in enumerate(rows) if row["id"] % 5 == 0]
    if bad and len(rows) == 5:
        raise BadItems({index: "no" for index in bad})
    with open("mended"):
        send({"stored": len(rows)})
"""
HOW = [("store", "true", "0"), ("remote", "false", "0"), ("remote", "false", "2")]
Command = Callable[..., Result]


class Readings(Scene):
    """Of the file with this handler."""

    def __init__(self, folder: Path, function: str, session: str, concurrency: str) -> None:
        text = FILE.replace("HANDLER", function).replace("SESSION", session).replace("CONCURRENCY", concurrency)
        (folder / "reading.py").write_text(MODULE.partition("\n")[2])
        super().__init__(folder, text)

    def feed(self, count: int) -> None:
        for number in range(count):
            value = json.dumps({"id": number, "amount": number + 0.1}).encode()
            self.log.append("in", 0, b"k%d" % (number % 3), value)

    def mend(self) -> None:
        (self.folder / "mended").write_text("")
        with sqlite3.connect(self.folder / "state.db") as connection:
            connection.execute("create table readings (id integer primary key, amount real)")


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Readings]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(LogTopics, "log", a_log("in", "out", "app.dead"))
    for module in (letters, progress):
        monkeypatch.setattr(module, "BrokerTopics", LogTopics, raising=False)
    monkeypatch.delitem(sys.modules, "reading", raising=False)
    with without_tracebacks():
        yield lambda *how: Readings(tmp_path, *how)
    sys.modules.pop("reading", None)


@pytest.mark.parametrize("how", HOW, ids=["session", "commit", "concurrency"])
def test_the_handler_of_a_failed_group_is_called_again_with_its_messages_once(
    how: tuple[str, str, str], scene: Callable[..., Readings]
) -> None:
    made = scene(*how)
    made.feed(45)
    made.later()
    listed = made.listed()
    failed = ("group", "handler-failed", False)
    assert [(letter["kind"], letter["reason"], letter["retried"]) for letter in listed] == [failed] * 9
    made.mend()
    first, *others = [letter["id"] for letter in listed]
    done = made.dead("retry", "readings", first, "--why", "the table is there", "--by", "ann")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "1 group to be handled again\n"
    made.later()
    [output] = made.outputs()
    assert (output["stored"], output["reason"]) == (5, "count")
    second = made.dead("retry", "readings", first)
    assert (second.exit_code, "was retried before" in second.stderr) == (5, True)
    assert [letter["retried"] for letter in made.listed()].count(True) == 1
    done = made.dead("retry", "readings", *others, "--json")
    assert (done.exit_code, json.loads(done.stdout)["groups"]) == (0, 8)
    made.driver = made.started()
    made.later()
    assert sorted(letter["total"] for letter in made.outputs()) == sorted(
        round(sum(number + 0.1 for number in range(key + group * 15, key + group * 15 + 15, 3)), 9)
        for key in range(3)
        for group in range(3)
    )
    if how[1] == "true":
        with sqlite3.connect(made.folder / "state.db") as connection:
            rows = connection.execute("select count(*), count(distinct id), sum(id) from readings").fetchall()
        assert rows == [(45, 45, sum(range(45)))]
    assert all(letter["retried"] for letter in made.listed())
    assert Counts(made.app, 1000).read({letter["letter"] for letter in made.listed()}).total() == 0
    audit = CliRunner().invoke(main, ["audit", str(made.folder / "app.yaml"), "--json"]).stdout
    notes = [
        letter for letter in json.loads(audit)["changes"] if letter["what"] == "dead retry" and first in letter["key"]
    ]
    assert (notes[0]["who"], notes[0]["why"]) == ("ann", "the table is there")


@pytest.mark.parametrize("how", HOW, ids=["session", "commit", "concurrency"])
def test_one_that_fails_again_is_another_dead_letter_that_can_be_retried(
    how: tuple[str, str, str], scene: Callable[..., Readings]
) -> None:
    made = scene(*how)
    made.feed(15)
    made.later()
    [first, *_] = [letter["id"] for letter in made.listed()]
    assert made.dead("retry", "readings", first).exit_code == 0
    made.later()
    again = [letter for letter in made.listed() if letter["id"] == first]
    assert [letter["retried"] for letter in again] == [True, False]
    made.mend()
    done = made.dead("retry", "readings", again[1]["letter"], "--json")
    assert (done.exit_code, json.loads(done.stdout)["groups"]) == (0, 1), done.output
    made.later()
    assert [letter["stored"] for letter in made.outputs()] == [5]
    everything = made.dead("retry", "readings", "--all", "--json")
    assert (everything.exit_code, json.loads(everything.stdout)["groups"]) == (0, 2)
    made.later()
    assert [letter["stored"] for letter in made.outputs()] == [5, 5, 5]


def test_a_command_that_got_no_answer_is_finished_by_the_same_command(
    scene: Callable[..., Readings], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene(*HOW[0])
    made.feed(15)
    made.later()
    made.mend()
    first = made.listed()[0]["id"]
    kind = type(made.store)
    commit, lost = kind.commit, [True]

    def unanswered(store: Any, claim: Any, changes: Any) -> Any:
        result = commit(store, claim, changes)
        if claim.partition.agent == "readings" and lost and lost.pop():
            raise PersistenceError("no answer")
        return result

    monkeypatch.setattr(kind, "commit", unanswered)
    assert made.dead("retry", "readings", first).exit_code == 3
    finished = made.dead("retry", "readings", first)
    assert (finished.exit_code, "was retried before" in finished.stderr) == (5, True), finished.output
    made.later()
    assert ([letter["stored"] for letter in made.outputs()], made.listed()[0]["retried"]) == ([5], True)


def test_messages_that_left_the_group_stay_out(scene: Callable[..., Readings]) -> None:
    made = scene("choosy", "false", "0")
    made.feed(15)
    made.later()
    groups = [letter for letter in made.listed() if letter["kind"] == "group"]
    assert [letter["kind"] for letter in made.listed()].count("item") == 3
    made.mend()
    assert made.dead("retry", "readings", *(letter["id"] for letter in groups)).exit_code == 0
    made.later()
    assert [letter["stored"] for letter in made.outputs()] == [4, 4, 4]
    [letter, *_] = [m for m in distinct(made.log, "app.dead") if header(m, "sluicegate-dead-item") is None]
    assert header(letter, "sluicegate-removed") in ("0", "1", "2", "3", "4")


def test_what_cannot_be_retried_is_named_and_the_command_does_not_end_with_0(
    tmp_path: Path, scene: Callable[..., Readings]
) -> None:
    made = scene(*HOW[0])
    made.feed(15)
    made.later()
    text = (tmp_path / "app.yaml").read_text()
    (tmp_path / "app.yaml").write_text(re.sub(r"    (handler|session|concurrency|retry): .*\n", "", text))
    made.log.append("app.dead", 0, b"k", b"x", list(distinct(made.log, "app.dead")[0].h or ()))
    done = made.dead("retry", "readings", "--all")
    assert done.exit_code == 4, done.output
    assert done.stdout == "nothing was sent\n"
    for letter in made.listed():
        why = "it is a completed group: its handler failed, and agent readings has no handler"
        assert f"{letter['id']} was left out: {why}" in done.stderr


def test_an_id_is_never_broken_over_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ["a-topic-with-a-long-name.of-the-shop/11/123456789", "f2c79f61-7bd5-5c4f-9a8e-000000000000"]
    rows = [[id, "group", "an agent with a name", "an error of many words that has to be broken"] for id in ids]
    for width in ("10", "60", "80", "120"):
        monkeypatch.setenv("COLUMNS", width)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        print_table(("id!", "kind", "agent", "error"), rows)
        lines = capsys.readouterr().out.splitlines()
        assert [id for id in ids if any(id in line.split() for line in lines)] == ids


@pytest.mark.parametrize("how", HOW, ids=["session", "commit", "concurrency"])
def test_the_letter_of_an_early_result_is_retried_as_the_early_result_that_it_was(
    how: tuple[str, str, str], scene: Callable[..., Readings]
) -> None:
    made = scene(*how)
    made.write((made.folder / "app.yaml").read_text() + "    emit: {count: 2, final: false}\n")
    made.restart()
    made.feed(6)
    made.later()
    [first, *_] = [letter["id"] for letter in made.listed()]
    assert [letter["reason"] for letter in made.listed()] == ["handler-failed"] * 3
    made.mend()
    assert made.dead("retry", "readings", first).exit_code == 0
    made.later()
    assert [(output["stored"], output["final"]) for output in made.outputs()] == [(2, False)]
    assert [header(message, "sluicegate-dead-reason") for message in distinct(made.log, "app.dead")] == [
        "handler-failed"
    ] * 3
