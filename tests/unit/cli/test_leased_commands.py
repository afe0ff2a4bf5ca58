"""`sluicegate outbox` and `sluicegate timeouts` on a store that nobody else has open."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams import OutboxMessage, Timeout
from sluicegate.streams.cli import main
from sluicegate.streams.contracts.messages import Outcome
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import PersistenceError

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  a: {from: in, aggregate: {count: 3}, to: {topic: out}}
"""
Invoke = Callable[..., Result]
DUE = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Any) -> Store:
    (tmp_path / "app.yaml").write_text(FILE)
    made = open_store("sqlite:///state.db", str(tmp_path), app="app")
    made.migrate()
    return made


@pytest.fixture
def call(store: Store, tmp_path: Any) -> Invoke:
    return lambda kind, what, *more: CliRunner().invoke(main, [kind, what, str(tmp_path / "app.yaml"), *more])


def rows(call: Invoke, *more: str) -> list[tuple[str, str]]:
    return [(row["id"], row["state"]) for row in json.loads(call("outbox", "ls", "--json", *more).stdout)["rows"]]


def filled(store: Store) -> None:
    """One pending row, one sent, one dead."""
    messages = [OutboxMessage("t", b"k", b"v", [("h", b"x")], id=name) for name in ("one", "two", "three")]
    with store.transaction() as session:
        store.outbox.add(session, messages)
    for lane in store.outbox.lane_numbers():
        batch = store.outbox.claim(lane, "token", 10)
        if batch is not None and batch.rows:
            store.outbox.mark(batch, [Outcome("two", "rejected", "too large"), Outcome("three", "dispatched")])
            store.outbox.release(batch)


def test_rows_are_listed_by_state_shown_tried_again_and_dropped(store: Store, call: Invoke) -> None:
    filled(store)
    assert sorted(rows(call)) == [("one", "pending"), ("three", "dispatched"), ("two", "dead")]
    assert (rows(call, "--state", "dead"), rows(call, "--topic", "other")) == ([("two", "dead")], [])
    shown = json.loads(call("outbox", "show", "two", "--payload", "--json").stdout)
    assert (shown["reason"], shown["headers"], shown["value"], shown["history"][0]["outcome"]) == (
        "too large",
        {"h": "x"},
        "v",
        "rejected",
    )
    assert "value" not in json.loads(call("outbox", "show", "two", "--json").stdout)
    assert "too large" in call("outbox", "ls").stdout
    assert "rejected" in call("outbox", "show", "two").stdout
    assert call("outbox", "retry").stdout == "1 pending again\n"
    assert rows(call, "--state", "dead") == []
    assert call("outbox", "drop", "one", "--yes").stdout == "1 dropped\n"
    assert sorted(rows(call)) == [("three", "dispatched"), ("two", "pending")]


def test_mistakes_about_rows_are_usage_errors(store: Store, call: Invoke) -> None:
    for what, words in ((("ls", "--state", "lost"), "--state lost"), (("show", "nothing"), "no row nothing")):
        result = call("outbox", *what)
        assert (result.exit_code, words in result.stderr) == (2, True), result.stderr


def test_timeouts_are_added_listed_moved_and_cancelled(store: Store, call: Invoke) -> None:
    store.timeouts.insert(Timeout(UUID(int=7), "reminders", DUE, b"k", b"v", owner="saga-7"))
    added = json.loads(
        call("timeouts", "add", "orders", "2030-01-01T00:00:00Z", "--key", "o1", "--value", "{}", "--json").stdout
    )
    listed = json.loads(call("timeouts", "ls", "--json").stdout)["timeouts"]
    assert [letter["id"] for letter in listed] == [added["id"], str(UUID(int=7))]
    assert "saga-7" in call("timeouts", "ls", "--owner", "saga-7").stdout
    assert [
        timeout["id"] for timeout in json.loads(call("timeouts", "ls", "--key", "o1", "--json").stdout)["timeouts"]
    ] == [added["id"]]
    assert call("timeouts", "reschedule", added["id"], "15m").exit_code == 0
    [moved] = store.timeouts.find(destination="orders")
    assert timedelta(minutes=14) < moved.due_at - datetime.now(UTC) <= timedelta(minutes=15)
    assert call("timeouts", "cancel", str(UUID(int=7))).exit_code == 0
    assert [document.destination for document in store.timeouts.find()] == ["orders"]


def test_a_timeout_that_recurs_is_added_once_by_its_name(store: Store, call: Invoke) -> None:
    add = ("add", "reports", "--every", "0 2 * * *", "--name", "nightly", "--value", "{}")
    added = call("timeouts", *add)
    assert (added.exit_code, call("timeouts", *add).exit_code) == (0, 3)
    [timeout] = store.timeouts.find()
    assert (str(timeout.id), timeout.every) == (added.stdout.strip(), "0 2 * * *")
    assert (timeout.due_at.hour, timeout.due_at.minute) == (2, 0)
    assert timedelta(0) < timeout.due_at - datetime.now(UTC) <= timedelta(days=1)
    [listed] = json.loads(call("timeouts", "ls", "--json").stdout)["timeouts"]
    assert listed["every"] == "0 2 * * *"


def test_each_change_is_written_down_before_it_is_made(store: Store, call: Invoke, tmp_path: Any) -> None:
    filled(store)
    why = ("--why", "a test", "--by", "ann")
    assert call("outbox", "retry", "two", *why).exit_code == 0
    assert call("outbox", "drop", "one", "two", "--yes", *why).exit_code == 0
    added = call("timeouts", "add", "orders", "2030-01-01T00:00:00Z", "--null", *why).stdout.strip()
    assert call("timeouts", "reschedule", added, "2030-01-02T00:00:00Z", *why).exit_code == 0
    assert call("timeouts", "cancel", added, *why).exit_code == 0
    assert call("timeouts", "cancel", added, "--why", "again").exit_code == 2
    file = str(tmp_path / "app.yaml")
    changes = json.loads(CliRunner().invoke(main, ["audit", file, "--json"]).stdout)["changes"]
    assert [(change["what"], change["key"]) for change in changes] == [
        ("outbox retry", "two"),
        ("outbox drop", "one"),
        ("outbox drop", "two"),
        ("timeouts add", f"{added} to orders"),
        ("timeouts reschedule", f"{added} to 2030-01-02T00:00:00+00:00"),
        ("timeouts cancel", added),
        ("timeouts cancel", added),
    ]
    assert [(change["who"], change["why"], change["agent"]) for change in changes[:-1]] == [("ann", "a test", None)] * 6
    assert ("@" in changes[-1]["who"], changes[-1]["why"]) == (True, "again")
    assert added in CliRunner().invoke(main, ["audit", file]).stdout


def test_the_audit_tells_the_rest_when_an_agent_cannot_be_read(store: Store, call: Invoke, tmp_path: Any) -> None:
    store.commit(store.claim(Partition("app", "a", "in", 0), "token", "member"), Changes(0, entries=[b"\xff"]))
    call("timeouts", "add", "orders", "2030-01-01T00:00:00Z", "--value", "{}")
    result = CliRunner().invoke(main, ["audit", str(tmp_path / "app.yaml"), "--json"])
    assert ([change["what"] for change in json.loads(result.stdout)["changes"]], result.exit_code) == (
        ["timeouts add"],
        0,
    )
    assert "what was changed in the state of a cannot be read" in result.stderr
    assert CliRunner().invoke(main, ["audit", str(tmp_path / "app.yaml"), "a"]).exit_code == 3


def test_what_cannot_be_written_down_is_not_done(store: Store, call: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store)

    def fails(*_: object) -> None:
        raise PersistenceError("the disk is full")

    monkeypatch.setattr(type(store), "commit", fails)
    assert call("outbox", "drop", "one", "--yes").exit_code == 3
    assert ("one", "pending") in rows(call)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (("cancel", str(UUID(int=9))), "no pending timeout"),
        (("cancel", "x"), "is not an id"),
        (("reschedule", str(UUID(int=9)), "soon"), "neither a time"),
        (("add", " ", "1m", "--null"), "destination"),
        (("add", "t", "--null"), "--every"),
        (("add", "t", "--null", "--every", "61 * * * *"), "61 is not a valid minute"),
        (("add", "t", "2030-01-01T00:00:00", "--null"), "neither a time"),
        (("add", "t", "1m"), "--value TEXT, or send a message without a value with --null"),
        (("add", "t", "1m", "--value", "x", "--null"), "--value TEXT, or send a message without a value with --null"),
    ],
)
def test_mistakes_about_timeouts_are_usage_errors(call: Invoke, what: tuple[str, ...], text: str) -> None:
    result = call("timeouts", *what)
    assert (result.exit_code, text in result.stderr) == (2, True), result.stderr


def test_the_rows_of_another_app_on_the_same_store_are_neither_listed_nor_changed(
    store: Store, call: Invoke, tmp_path: Any
) -> None:
    filled(open_store("sqlite:///state.db", str(tmp_path)))  # of no app: they are of all
    other = open_store("sqlite:///state.db", str(tmp_path), app="other")
    timeout = Timeout(UUID(int=7), "t", DUE)
    other.timeouts.insert(timeout)
    other.outbox.add(None, [OutboxMessage("t", b"k", b"v", id="theirs")], require_transaction=False)
    assert json.loads(call("timeouts", "ls", "--json").stdout) == {"timeouts": []}
    for what in (("cancel", str(timeout.id)), ("reschedule", str(timeout.id), "1h")):
        result = call("timeouts", *what)
        assert (result.exit_code, "no pending timeout" in result.output) == (2, True)
    assert sorted(rows(call)) == [("one", "pending"), ("three", "dispatched"), ("two", "dead")]
    assert call("outbox", "show", "theirs").exit_code == 2
    assert call("outbox", "drop", "theirs", "--yes").stdout == "0 dropped\n"
    assert (other.timeouts.find(), other.outbox.count()) == ([timeout], 2)
    made = UUID(call("timeouts", "add", "t", "1h", "--value", "v").stdout.strip())
    assert [document.id for document in other.timeouts.find()] == [timeout.id]
    assert [document.id for document in store.timeouts.find()] == [made]
