"""`sluicegate groups` of an agent with windows: one key has a group in each open window."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main
from sluicegate.streams.cli.opening.files import loaded
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import a_log

FILE = """\
app: app
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///state.db
http: false
agents:
  a:
    from: in
    aggregate:
      window: {tumbling: 1m, time: {field: at, unit: s}, grace: 1m, at_most: 1d, max_ahead: 3650d}
      compute: {total: {sum: amount}}
    to: {topic: out}
"""
BEGIN = 1_767_225_600  # 2026-01-01T00:00:00Z
FIRST, SECOND = "2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.000Z"


@pytest.fixture
def file(tmp_path: Any) -> str:
    (tmp_path / "app.yaml").write_text(FILE)
    return str(tmp_path / "app.yaml")


@pytest.fixture
def groups(file: str) -> Callable[..., Result]:
    return lambda what, *more: CliRunner().invoke(main, ["groups", what, file, "a", *more])


def driver(file: str, log: Log) -> Driver:
    app = loaded(file)
    store = open_store(app.store, app.folder)
    store.migrate()
    return Driver(app.agents[0], store, log, ManualClock()).give(0)


def filled(file: str) -> Log:
    log = a_log("in", "out", "app.dead")
    for key, at, amount in (("x", 0, 5), ("x", 61, 7), ("y", 62, 1), ("x", 59, 2)):
        log.append("in", 0, key.encode(), json.dumps({"at": BEGIN + at, "amount": amount}).encode())
    driver(file, log).turns()
    return log


def results(log: Log) -> list[tuple[Any, ...]]:
    documents = [json.loads(message.v or b"") for message in distinct(log, "out")]
    return [
        (document["key"], document["reason"], document["window"]["start"], document["total"]) for document in documents
    ]


def test_ls_and_show_name_the_window(file: str, groups: Callable[..., Result]) -> None:
    filled(file)
    listed = json.loads(groups("ls", "--json").stdout)["groups"]
    assert [(letter["key"], letter["window"], letter["count"]) for letter in listed] == [
        ("x", FIRST, 2),
        ("x", SECOND, 1),
        ("y", SECOND, 1),
    ]
    assert FIRST in groups("ls").stdout
    shown = json.loads(groups("show", "x", "--window", SECOND, "--json").stdout)["groups"]
    assert [group["values"] for group in shown] == [{"total": 7}]


def test_why_names_the_watermark_and_what_would_close_the_window(file: str, groups: Callable[..., Result]) -> None:
    filled(file)
    output = groups("why", "x", "--window", FIRST).stdout
    assert (
        "in/0: 2 records, no count ends it, opened 0 s ago, closes when the watermark reaches 2026-01-01T00:02:00.000Z"
        in output
    )
    assert "the watermark is 2026-01-01T00:01:02.000Z, the highest time of a record of this partition" in output
    assert "if no record follows it closes at " in output
    assert " at the latest" in output
    assert len(groups("why", "x").stdout.splitlines()) == 2


def test_fire_and_drop_need_the_window_where_a_key_has_several(file: str, groups: Callable[..., Result]) -> None:
    log = filled(file)
    refused = groups("fire", "x")
    assert (refused.exit_code, f"{FIRST}, {SECOND}: choose one with --window" in refused.stderr) == (2, True)
    assert groups("fire", "x", "--window", FIRST).exit_code == 0
    driver(file, log).turns(20)
    assert results(log) == [("x", "manual", FIRST, 7)]
    assert groups("drop", "x", "--window", SECOND, "--yes").exit_code == 0
    listed = json.loads(groups("ls", "--json").stdout)["groups"]
    assert [(letter["key"], letter["window"]) for letter in listed] == [("y", SECOND)]


def test_a_window_that_is_no_time_or_not_open_is_refused(file: str, groups: Callable[..., Result]) -> None:
    filled(file)
    for window, problem in (("today", "--window today is not a time"), ("2025-01-01T00:00:00Z", "no open group x")):
        result = groups("why", "x", "--window", window)
        assert (result.exit_code, problem in result.stderr) == (2, True)


def test_sliding_windows_are_listed_by_key_and_dropped_and_cannot_be_fired(
    file: str, groups: Callable[..., Result]
) -> None:
    Path(file).write_text(FILE.replace("tumbling: 1m", "sliding: 1m").replace("at_most: 1d, ", ""))
    log = filled(file)
    assert results(log) == [
        ("x", "window", "2025-12-31T23:59:00.000Z", 5),
        ("x", "window", "2026-01-01T00:00:01.000Z", 7),
        ("y", "window", "2026-01-01T00:00:02.000Z", 1),
        ("x", "window", "2025-12-31T23:59:59.000Z", 7),
    ]
    listed = json.loads(groups("ls", "--json").stdout)["groups"]
    assert [(letter["key"], letter["window"], letter["count"]) for letter in listed] == [
        ("x", "2026-01-01T00:00:01.000Z", 2),
        ("y", "2026-01-01T00:00:02.000Z", 1),
    ]
    shown = json.loads(groups("show", "x", "--json").stdout)["groups"]
    assert [group["values"] for group in shown] == [{"total": 9}]
    why = groups("why", "x").stdout
    assert "each of them had its result, the last one is forgotten at watermark 2026-01-01T00:03:01.001Z" in why
    assert "if no record follows" not in why
    refused = groups("fire", "x")
    assert (refused.exit_code, "each record of x had its result; no other one is due" in refused.stderr) == (2, True)
    assert groups("drop", "x", "--yes").exit_code == 0
    log.append("in", 0, b"x", json.dumps({"at": BEGIN + 63, "amount": 3}).encode())
    driver(file, log).turns(20)
    assert results(log)[4:] == [("x", "window", "2026-01-01T00:00:03.000Z", 3)]


def test_the_last_records_of_a_key_are_listed_by_key(file: str, groups: Callable[..., Result]) -> None:
    Path(file).write_text(FILE.replace("tumbling: 1m", "last: 2").replace("at_most: 1d, ", ""))
    log = filled(file)
    assert results(log) == [
        ("x", "window", "2026-01-01T00:00:00.000Z", 5),
        ("x", "window", "2026-01-01T00:00:00.000Z", 12),
        ("y", "window", "2026-01-01T00:01:02.000Z", 1),
        ("x", "window", "2026-01-01T00:00:00.000Z", 7),
    ]
    listed = json.loads(groups("ls", "--json").stdout)["groups"]
    assert [(letter["key"], letter["window"], letter["count"]) for letter in listed] == [
        ("x", "2026-01-01T00:00:59.000Z", 2),
        ("y", "2026-01-01T00:01:02.000Z", 1),
    ]
    why = groups("why", "x").stdout
    assert "each of them had its result, the last one is forgotten behind 2 later records" in why


@pytest.mark.parametrize(
    ("late", "text", "totals"),
    [
        ("{amend: 1h, every: 1m}", "its window has closed, 1 result sent, its next result is due at 20", [5, 7]),
        (
            "{new: 1m}",
            "its window has closed, late records of it make a further result, its next result is due at 20",
            [5, 2],
        ),
    ],
)
def test_a_window_that_has_closed_says_what_its_late_records_wait_for(
    file: str, groups: Callable[..., Result], late: str, text: str, totals: list[int]
) -> None:
    Path(file).write_text(FILE.replace("max_ahead: 3650d", f"max_ahead: 3650d, late: {late}"))
    log = a_log("in", "out", "app.dead")
    for key, at, amount in (("x", 0, 5), ("y", 200, 1), ("x", 59, 2)):
        log.append("in", 0, key.encode(), json.dumps({"at": BEGIN + at, "amount": amount}).encode())
    driver(file, log).turns()
    assert text in groups("why", "x").stdout
    assert groups("fire", "x").exit_code == 0
    driver(file, log).turns(20)
    assert [total for key, _, _, total in results(log) if key == "x"] == totals
    if "amend" in late:
        waits = groups("why", "x").stdout
        assert "its window has closed, 2 results sent, no late record waits, takes late records while" in waits
        assert "the watermark is before 2026-01-01T01:02:00.000Z" in waits
        assert groups("drop", "x", "--yes").exit_code == 0
    assert [group["key"] for group in json.loads(groups("ls", "--json").stdout)["groups"]] == ["y"]
