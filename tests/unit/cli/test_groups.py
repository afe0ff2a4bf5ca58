"""`sluicegate groups` and `audit`: what is open, why, and a person who ends it, on a store that a run has left or that
one has open."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening import changing
from sluicegate.streams.cli.opening.files import loaded
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.engine.commits import Commits
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal import amending
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups import open_groups
from sluicegate.streams.rules import rule_of
from sluicegate.streams.testing.log import LogProducer
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import a_log, feed

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  a:
    from: in
    aggregate:
      count: 3
      timeout: {after: 10m, since: first}
      compute: {n: count, total: {sum: amount}}
    to: {topic: out}
"""
ANNE = Person("anne@here", "the shop closes", "a token")


@pytest.fixture
def file(tmp_path: Any) -> str:
    (tmp_path / "app.yaml").write_text(FILE)
    return str(tmp_path / "app.yaml")


@pytest.fixture
def groups(file: str) -> Callable[..., Result]:
    return lambda what, *more: CliRunner().invoke(main, ["groups", what, file, "a", *more])


def a_store(file: str) -> Store:
    app = loaded(file)
    store = open_store(app.store, app.folder, app=app.name)
    store.migrate()
    return store


def driver(file: str, log: Log) -> Driver:
    return Driver(loaded(file).agents[0], a_store(file), log, ManualClock()).give(0)


def filled(file: str) -> tuple[Driver, Log]:
    log = a_log("in", "out", "app.dead")
    feed(log, ("x", 5), ("y", 1), ("x", 7))
    return driver(file, log).turns(), log


def results(log: Log) -> list[tuple[Any, ...]]:
    documents = [json.loads(message.v or b"") for message in distinct(log, "out")]
    return [(document["key"], document["reason"], document["count"], document["total"]) for document in documents]


def test_it_lists_shows_and_explains_what_is_open(file: str, groups: Callable[..., Result]) -> None:
    filled(file)
    listed = json.loads(groups("ls", "--json").stdout)["groups"]
    assert [(letter["key"], letter["count"], letter["first"], letter["last"]) for letter in listed] == [
        ("x", 2, 0, 2),
        ("y", 1, 1, 1),
    ]
    assert json.loads(groups("show", "x", "--json").stdout)["groups"][0]["values"] == {"n": 2, "total": 12}
    why = groups("why", "x").stdout
    assert re.search(r"in/0: 2 of 3 records, opened \d s ago, fires in (600|59\d) s, owner member", why), why
    assert "x" in groups("ls").stdout
    assert "12" in groups("show", "x").stdout


def test_a_sum_of_more_digits_than_text_may_have_is_shown_as_null(file: str, groups: Callable[..., Result]) -> None:
    log = a_log("in", "out", "app.dead")
    feed(log, ("x", int("9" * 4_300)), ("x", int("9" * 4_300)))
    driver(file, log).turns()
    assert json.loads(groups("show", "x", "--json").stdout)["groups"][0]["values"] == {"n": 2, "total": None}
    assert [groups("show", "x").exit_code, groups("why", "x").exit_code] == [0, 0]


def test_it_says_how_far_a_group_is_from_an_until_expression(file: str, groups: Callable[..., Result]) -> None:
    until = "      until: group.total >= 500 || group.count > 9\n      timeout:"
    Path(file).write_text(FILE.replace("      count: 3\n      timeout:", until))
    filled(file)
    text = (
        "2 records, no count ends it, count is 2, total is 12, ends at group.total >= 500 || group.count > 9, "
        "opened 0 s ago"
    )
    assert text in groups("why", "x").stdout


def test_a_key_that_is_not_open_is_refused(file: str, groups: Callable[..., Result]) -> None:
    filled(file)
    for what in ("show", "why", "fire", "drop"):
        result = groups(what, "z")
        assert (result.exit_code, "no open group z" in result.stderr) == (2, True)


def test_a_live_owner_fires_what_a_person_asked_for_once(file: str, groups: Callable[..., Result]) -> None:
    live, log = filled(file)
    assert groups("fire", "x").exit_code == 0
    feed(log, ("y", 2))
    live.turns().later(5).turns(20)
    assert results(log) == [("x", "manual", 2, 12)]
    assert header(distinct(log, "out")[0], "sluicegate-reason") == "manual"
    driver(file, log).turns(20)
    assert (len(results(log)), [group["key"] for group in json.loads(groups("ls", "--json").stdout)["groups"]]) == (
        1,
        ["y"],
    )


def idle(file: str, groups: Callable[..., Result]) -> list[tuple[Any, ...]]:
    live, log = filled(file)
    groups("fire", "x")
    for _ in range(4):
        live.later(5).turns(3)
    return results(log)


def test_an_idle_owner_finds_out_without_any_record(file: str, groups: Callable[..., Result]) -> None:
    assert idle(file, groups) == [("x", "manual", 2, 12)]


def test_an_owner_that_never_looks_would_not(
    file: str, groups: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Commits, "look", lambda *_: None)
    assert idle(file, groups) == []


def test_a_stopped_agent_fires_it_when_it_starts_and_twice_asked_is_once(
    file: str, groups: Callable[..., Result]
) -> None:
    _, log = filled(file)
    assert (groups("fire", "x").exit_code, groups("fire", "x").exit_code) == (0, 0)
    assert results(log) == []
    driver(file, log).turns(20)
    assert results(log) == [("x", "manual", 2, 12)]


def asked_of_a_group_that_is_another_by_now(file: str) -> list[tuple[Any, ...]]:
    live, log = filled(file)
    [group] = open_groups.open_groups(live.store, "app", loaded(file).agents[0], b"x")
    feed(log, ("x", 1), ("x", 100))
    live.turns()
    open_groups.fire(live.store, group, ANNE)
    driver(file, log).turns(20)
    return results(log)


def test_a_group_of_the_same_key_that_was_opened_later_is_not_meant(file: str) -> None:
    assert asked_of_a_group_that_is_another_by_now(file) == [("x", "count", 3, 13)]


def test_the_offset_of_the_first_record_is_what_tells_them_apart(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_key(self: Groups) -> list[tuple[bytes, str]]:
        return [(key, "manual") for key in self.asked]

    monkeypatch.setattr(Groups, "judge", by_key)
    assert asked_of_a_group_that_is_another_by_now(file) == [("x", "count", 3, 13), ("x", "manual", 1, 100)]


def test_what_is_dropped_is_never_sent_and_the_next_record_opens_a_new_group(
    file: str, groups: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    live, log = filled(file)
    monkeypatch.setattr(changing, "terminal", lambda: True)
    refused = CliRunner().invoke(main, ["groups", "drop", file, "a", "x"], input="n\n")
    assert (refused.exit_code, "nothing was changed" in refused.stderr) == (2, True)
    assert groups("drop", "x", "--yes").exit_code == 0
    feed(log, ("x", 1), ("x", 1), ("x", 1))
    live.turns().later(5).turns(20)
    assert results(log) == [("x", "count", 3, 3)]


def test_what_is_dropped_is_in_the_history(
    file: str, groups: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(file).read_text()
    Path(file).write_text(text.replace("    to: {topic: out}", "    history: ended\n    to: {topic: out}"))
    live, log = filled(file)
    log.create("ended", 1)
    log.topics["ended"] = [[]]
    monkeypatch.setattr("sluicegate.connectors.kafka.clusters.routed.open_producer", lambda kafka: LogProducer(log))
    assert groups("drop", "x", "--yes").exit_code == 0
    assert groups("drop", "x", "--yes").exit_code == 2
    for _ in range(4):
        live.later(5).turns(3)
    [message] = distinct(log, "ended")
    headers = [header(message, f"sluicegate-{name}") for name in ("reason", "count", "first", "last", "rule")]
    assert headers == ["drop", "2", "in/0/0", "in/0/2", rule_of(loaded(file).agents[0]).short]
    assert (results(log), dead_letters(log)) == ([], [])


def test_with_the_embedded_broker_nothing_is_dropped_that_has_a_history(
    file: str, groups: Callable[..., Result]
) -> None:
    text = Path(file).read_text().replace("127.0.0.1:1", "embedded")
    Path(file).write_text(text.replace("    to: {topic: out}", "    history: ended\n    to: {topic: out}"))
    filled(file)
    done = groups("drop", "x", "--yes")
    assert (done.exit_code, "only the broker tells how many partitions" in done.stderr) == (2, True), done.stderr
    assert len(json.loads(groups("ls", "--json").stdout)["groups"]) == 2


def dead_letters(log: Log) -> list[Any]:
    return distinct(log, "app.dead")


def dropped_too_late(file: str) -> list[tuple[Any, ...]]:
    live, log = filled(file)
    agent = loaded(file).agents[0]
    [group] = open_groups.open_groups(live.store, "app", agent, b"x")
    feed(log, ("x", 1), ("x", 100))
    live.turns()
    with pytest.raises(ConfigurationError, match="ended meanwhile"):
        open_groups.drop(live.store, group, agent, ANNE)
    feed(log, ("x", 1), ("x", 1))
    driver(file, log).turns(20)
    return results(log)


def test_a_group_that_ended_while_a_person_looked_is_not_dropped_nor_the_next_one(file: str) -> None:
    assert dropped_too_late(file) == [("x", "count", 3, 13), ("x", "count", 3, 102)]


def test_without_a_look_under_the_claim_the_next_group_would_be_lost(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blindly(store: Store, place: Any, who: Person, what: str, key: str, still: Any = None, **options: Any) -> Any:
        return amending.amend(store, place, who, what, key, **options)

    monkeypatch.setattr(open_groups, "amend", blindly)
    with pytest.raises(pytest.fail.Exception):
        dropped_too_late(file)


def test_who_changed_what_and_why_is_listed_and_survives_compaction(
    file: str, groups: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, log = filled(file)
    groups("fire", "x", "--why", "the shop closes")
    groups("drop", "y", "--yes", "--why", "a test order")
    monkeypatch.setattr(changelog, "SLACK", 1)
    monkeypatch.setattr(changelog, "GROWTH", 0)
    live = driver(file, log)
    for n in range(30):
        feed(log, ("z", n))
        live.turns(4)
    assert live.store.read(live.store.partitions("app")[0]).claim.first > 5  # type: ignore[union-attr]
    result = CliRunner().invoke(main, ["audit", file, "a", "--json"])
    changes = [
        (change["what"], change["key"], change["why"], "@" in change["who"])
        for change in json.loads(result.stdout)["changes"]
    ]
    assert changes == [("groups fire", "x", "the shop closes", True), ("groups drop", "y", "a test order", True)]
    assert "the shop closes" in CliRunner().invoke(main, ["audit", file, "a"]).stdout


def test_state_in_the_memory_of_a_run_is_nobody_elses(tmp_path: Any) -> None:
    (tmp_path / "app.yaml").write_text(FILE.replace("sqlite:///state.db", "memory://"))
    result = CliRunner().invoke(main, ["groups", "ls", str(tmp_path / "app.yaml"), "a"])
    assert (result.exit_code, "no other process can reach it" in result.stderr) == (2, True)


def test_the_groups_of_the_shared_buffer_are_read_from_it_and_ended_by_hand(
    file: str, groups: Callable[..., Result]
) -> None:
    path = Path(file)
    path.write_text(FILE.replace("    from: in\n", "    from: in\n    scope: shared\n"))
    log = a_log()
    feed(log, ("k", 5), ("k", 5), ("other", 5))
    driver(file, log).turns()
    outcome = json.loads(groups("ls", "--json").stdout)["groups"]
    assert [(item["key"], item["count"], item["owner"]) for item in outcome] == [("k", 2, None), ("other", 1, None)]
    assert 500 < outcome[0]["fires_in"] <= 600
    assert json.loads(groups("show", "k", "--json").stdout)["groups"][0]["values"] == {"n": 2, "total": 10}
    assert "2 of 3" in groups("why", "k").stdout
    assert "any worker fires it" in groups("why", "k").stdout
    assert groups("drop", "other", "--yes", "--why", "a mistake").exit_code == 0
    assert groups("fire", "k", "--why", "now").exit_code == 0
    assert groups("fire", "k").exit_code == 2
    driver(file, log).turns()
    assert json.loads(groups("ls", "--json").stdout)["groups"] == []
    [row] = a_store(file).outbox.find()
    document = json.loads(row.message.value or b"")
    assert (document["reason"], document["count"], document["total"]) == ("manual", 2, 10)
    audited = CliRunner().invoke(main, ["audit", file, "--json"])
    assert [(change["what"], change["why"]) for change in json.loads(audited.stdout)["changes"]] == [
        ("groups drop", "a mistake"),
        ("groups fire", "now"),
    ]
