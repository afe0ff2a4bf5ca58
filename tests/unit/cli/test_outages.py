"""`outage` in a file and as a keyword: what `check` says of it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluicegate import App
from sluicegate.streams.cli import main

FILE = """\
app: m
kafka: {bootstrap.servers: "127.0.0.1:1"}
store: sqlite:///m.db
dead_letters: m.dead
http: false
agents:
  a:
    from: m.in
    handler: stocked:enter
    retry: {attempts: 1}
    outage: OUTAGE
    to: {topic: m.out}
tests:
  an outage is not the fault of the record:
    - send: {topic: m.in, key: k, value: {amount: 1}}
    - advance: 5m
    - expect: {topic: m.out, key: k, value: {ok: true}}
    - expect_nothing: m.dead
"""
MODULE = """\
calls = []


class StockIsAway(Exception):
    pass


def enter(value, send):
    calls.append(value)
    if len(calls) < 3:
        raise StockIsAway("503")
    send({"ok": True})
"""
Ran = Callable[[str, str], Result]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    (tmp_path / "stocked.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)

    def run(command: str, outage: str) -> Result:
        monkeypatch.delitem(sys.modules, "stocked", raising=False)
        (tmp_path / "app.yaml").write_text(FILE.replace("OUTAGE", outage))
        return CliRunner().invoke(main, [command, "app.yaml"])

    return run


def test_an_error_of_the_file_counts_no_attempt(ran: Ran) -> None:
    result = ran("test", "[stocked.StockIsAway]")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 of 1 tests passed"), result.output
    assert ran("test", "[]").exit_code == 1
    text = "takes stocked.StockIsAway for an outage, which counts no attempt, beside the errors of known libraries"
    assert text in ran("check", "[stocked.StockIsAway]").stdout


@pytest.mark.parametrize(
    ("outage", "text"),
    [
        ("[stocked.StockIsAwy]", "stocked.py has no StockIsAwy; did you mean StockIsAway?"),
        ("[stocked.enter]", "stocked.enter: is not a class of errors; write one as package.Name"),
        ("['stocked:StockIsAway']", "is not a class of errors; write package.Name, such as httpx.TransportError"),
        ("stocked.StockIsAway", "must be a list"),
    ],
)
def test_a_name_that_is_none_is_refused_with_its_line(outage: str, text: str, ran: Ran) -> None:
    result = ran("check", outage)
    assert result.exit_code == 2, result.output
    assert "app.yaml:11:" in result.stderr, result.stderr
    assert text in result.stderr


class Away(Exception):
    """An outage of a program."""


def test_a_program_names_classes() -> None:
    app = App("shop", store="memory://", kafka={"bootstrap.servers": "localhost:9092"})

    @app.agent(from_="orders", to="out", dead_letters="dead", outage=[Away, OSError, "TimeoutError"])
    def enter(value, send):  # type: ignore[no-untyped-def]
        send(value)

    assert [*app.agents["enter"].document["outage"]] == [f"{__name__}.Away", "OSError", "TimeoutError"]
    app.check()
