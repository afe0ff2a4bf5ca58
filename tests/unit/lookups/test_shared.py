"""`scope: shared` with lookups: the rows are read when a batch fires."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.config import load
from sluicegate.streams.shared.shared_rows import SharedRows
from sluicegate.streams.testing.play import Failure, play, play_with_crashes

FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: STORE
dead_letters: dead
agents:
  baskets:
    from: in
    scope: shared
    aggregate: {count: 2, timeout: 30s, compute: {spent: {sum: amount}}}
    lookup: {customer: {SOURCE, key: key, fields: [name]MISSING}}
    MORE
    to: {topic: out}
tests:
  it:
"""
TABLE, TOPIC = "table: customers, column: id", "topic: customers"
FULL = """\
    - send: {topic: in, key: KEY, value: {amount: 2}}
    - send: {topic: in, key: KEY, value: {amount: 3}}
"""
ROWS = {
    TABLE: "    - row: {table: customers, key: a, value: {name: Ann}}\n",
    TOPIC: "    - send: {topic: customers, key: a, value: {name: Ann, more: 1}}\n",
}
HANDLER = "handler: tests.unit.lookups.test_shared:enter"


def enter(batch: Any, lookups: Mapping[str, Any], send: Any) -> None:
    """Send the name that was looked up."""
    send({"spent": batch.value["spent"], "name": lookups["customer"]["name"]})


def full(key: str) -> str:
    return FULL.replace("KEY", key)


def result(
    folder: Path, steps: str, source: str, missing: str = "", more: str = "revision: '1'", crashes: bool = False
) -> Failure | None:
    text = (FILE + steps).replace("SOURCE", source).replace("MISSING", missing).replace("MORE", more)
    (folder / "shop.yaml").write_text(text.replace("STORE", "memory://" if source == TOPIC else "sqlite:///state.db"))
    (folder / "tables.sql").write_text("create table customers (id text primary key, name text);\n")
    file = load(folder / "shop.yaml", {})
    assert file.app is not None, [str(problem) for problem in file.problems]
    if not crashes:
        return play(file.app, file.cases[0])
    verdict = play_with_crashes(file.app, file.cases[0], lambda done, total: None)
    assert verdict.failure is not None or verdict.deaths > 5
    return verdict.failure


@pytest.mark.parametrize("source", [TABLE, TOPIC])
@pytest.mark.parametrize("more", ["revision: '1'", HANDLER, "having: spent > 4 && has(customer.name)"])
def test_a_group_gets_its_row(source: str, more: str, tmp_path: Path) -> None:
    value = "{spent: 5, name: Ann}" if more == HANDLER else "{spent: 5, customer: {name: Ann}}"
    steps = ROWS[source] + full("a") + f"    - expect: {{topic: out, key: a, value: {value}}}\n"
    setup = "    - setup: tables.sql\n" if source == TABLE else ""
    assert result(tmp_path, setup + steps, source, more=more) is None


@pytest.mark.parametrize("more", ["revision: '1'", HANDLER])
def test_a_row_that_comes_later_is_waited_for_while_other_groups_pass(more: str, tmp_path: Path) -> None:
    steps = full("a") + "    - advance: 5s\n    - send: {topic: customers, key: b, value: {name: Bob}}\n" + full("b")
    steps += "    - expect: {topic: out, key: b}\n    - expect_nothing: out\n" + ROWS[TOPIC]
    steps += "    - advance: 5s\n    - expect: {topic: out, key: a}\n" + full("c")
    steps += "    - advance: 2m\n    - expect: {topic: dead, key: c, reason: lookup-missing}\n"
    assert result(tmp_path, steps, TOPIC, ", missing: {wait: 1m}", more) is None


def test_a_group_without_its_row_is_a_dead_letter_where_the_file_says_so(tmp_path: Path) -> None:
    steps = full("a") + "    - expect: {topic: dead, key: a, reason: lookup-missing}\n    - expect_nothing: out\n"
    assert result(tmp_path, steps, TOPIC, ", missing: dead-letter") is None


@pytest.mark.parametrize("missing", ["", ", missing: {wait: 1m}"])
def test_each_group_has_one_result_with_its_row_after_a_death_anywhere(missing: str, tmp_path: Path) -> None:
    steps = ROWS[TOPIC] + full("a") + "    - advance: 15s\n"  # a batch of a dead worker is leased for 10 s
    steps += "    - expect: {topic: out, key: a, value: {spent: 5, customer: {name: Ann}}}\n"
    assert result(tmp_path, steps + "    - expect_nothing: dead\n", TOPIC, missing, crashes=True) is None


def test_twin_without_the_rows_finds_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = ROWS[TOPIC] + full("a") + "    - expect: {topic: out, key: a, value: {customer: {name: Ann}}}\n"
    assert result(tmp_path, steps, TOPIC) is None
    monkeypatch.setattr(SharedRows, "of", lambda self, fire, first, outcomes: {})
    assert result(tmp_path, steps, TOPIC) is not None


def test_a_group_that_waits_has_its_row_after_a_death_anywhere(tmp_path: Path) -> None:
    steps = full("a") + full("b") + "    - advance: 5s\n" + ROWS[TOPIC] + ROWS[TOPIC].replace("a, v", "b, v")
    steps += "    - advance: 30s\n    - advance: 15s\n"  # a worker may die behind the 30 s: its lease lasts for 10 s
    steps += "    - expect: {topic: out, key: a, value: {customer: {name: Ann}}}\n    - expect: {topic: out, key: b}\n"
    steps += "    - expect_nothing: dead\n"
    assert result(tmp_path, steps, TOPIC, ", missing: {wait: 5m}", crashes=True) is None
