"""The example of a saga: its own tests with a death at every place, and the same on a SQL store."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.connectors.sql.sqlite import Sqlite
from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.cli import main
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.log import START

SAGA = Path(__file__).resolve().parents[3] / "examples" / "saga"


@pytest.fixture
def saga(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, so that a test may change it."""
    monkeypatch.delenv("SLUICEGATE_LOG_LEVEL", raising=False)
    shutil.copytree(SAGA, tmp_path / "saga", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "saga" / "saga.yaml"


def test_it_survives_its_own_tests_and_every_crash(saga: Path) -> None:
    result = CliRunner().invoke(main, ["test", str(saga), "--crash"])
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr, lines[-1]) == (0, "", "3 of 3 tests passed")
    assert all(int(line.partition("(")[2].split()[0]) > 30 for line in lines[:-1])


def test_without_its_timeout_the_tests_fail(saga: Path) -> None:
    text = saga.read_text()
    saga.write_text(text.replace("- advance: 1m", "- advance: 59s"))
    assert saga.read_text() != text
    result = CliRunner().invoke(main, ["test", str(saga), "not paid"])
    assert result.exit_code == 1
    assert "expected an output on decisions" in result.stdout


def test_it_runs_on_a_sql_store(saga: Path, tmp_path: Path) -> None:
    drivers: list[TestDriver] = []
    store = SqlStore(Sqlite(tmp_path / "state.db", clock=lambda: drivers[0].clock.time() if drivers else START))
    store.migrate()
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("create table orders (id text primary key, state text)")
    with TestDriver(saga, store=store) as driver:
        drivers.append(driver)
        for order in ("o-1", "o-2"):
            driver.send("orders", {"event": "placed", "order": order}, key=order)
        driver.advance("14m")
        driver.send("orders", {"event": "paid", "order": "o-1"}, key="o-1")
        driver.advance("1m")
        driver.send("orders", {"event": "paid", "order": "o-2"}, key="o-2")
        done = [(output.value["order"], output.value["do"]) for output in driver.read("decisions")]
        assert done == [("o-1", "ship"), ("o-2", "cancel"), ("o-2", "refund")]
    with sqlite3.connect(tmp_path / "state.db") as database:
        assert database.execute("select id, state from orders order by id").fetchall() == [
            ("o-1", "paid"),
            ("o-2", "cancelled"),
        ]
    store.close()
