"""Tests of a file give rows to lookups, and hold with a crash anywhere."""

from pathlib import Path

import pytest

from sluicegate.streams.config import load
from sluicegate.streams.testing.play import play, play_with_crashes
from tests.unit.config.files import lines

FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: STORE
dead_letters: dead
agents:
  enrich:
    from: orders
    lookup: {customer: {KIND: customers, column: id, key: customer_id, fields: [name, tier]MISSING}}
    to: {topic: enriched}
  load:
    from: readings
    aggregate: {timeout: {after: 10s}, compute: {mean: {mean: celsius}}}
    lookup: {device: {KIND: devices, column: id, key: key, fields: [site]}}
    to: {topic: load}
tests:
"""
STEPS = """\
  a row is added to the message:
    - row: {KIND: customers, key: c-1, value: {name: Ann, tier: 2}}
    - send: {topic: orders, key: o-1, value: {customer_id: c-1, total: 5}}
    - expect: {topic: enriched, key: o-1, value: {total: 5, customer: {name: Ann, tier: 2}}}
    - row: {KIND: customers, key: c-1, value: null}
    - send: {topic: orders, key: o-2, value: {customer_id: c-1, total: 6}}
    - expect: {topic: enriched, key: o-2, value: {total: 6, customer: null}}
  a row is added to the result:
    - row: {KIND: devices, key: d-1, value: {site: Ulm}}
    - send: {topic: readings, key: d-1, value: {celsius: 20}}
    - advance: 10s
    - expect: {topic: load, key: d-1, value: {mean: 20, device: {site: Ulm}}}
"""
WAITS = """\
  a record waits for its row:
    - send: {topic: orders, key: o-1, value: {customer_id: c-1, total: 5}}
    - advance: 20s
    - expect_nothing: enriched
    - row: {KIND: customers, key: c-1, value: {name: Ann, tier: 2}}
    - advance: 30s
    - expect: {topic: enriched, key: o-1, value: {customer: {name: Ann, tier: 2}}}
    - send: {topic: orders, key: o-2, value: {customer_id: c-9}}
    - advance: 2m
    - expect: {topic: dead, key: o-2, reason: lookup-missing}
"""
TABLES = (
    "create table customers (id text primary key, name text, tier integer);\ncreate table devices (id, site text);\n"
)


def loaded(folder: Path, steps: str, kind: str = "table", store: str = "sqlite:///state.db", missing: str = "") -> Path:
    text = (FILE + steps).replace("KIND", kind).replace("STORE", store).replace("MISSING", missing)
    path = folder / "f.yaml"
    path.write_text(text)
    (folder / "tables.sql").write_text(TABLES)
    return path


@pytest.mark.parametrize(
    ("kind", "store"),
    [("table", "sqlite:///state.db"), ("table", "postgresql://localhost/db"), ("collection", "mongodb://localhost/db")],
)
def test_rows_of_a_test_survive_a_crash_anywhere(tmp_path: Path, kind: str, store: str) -> None:
    file = load(loaded(tmp_path, STEPS, kind, store), {})
    assert file.app is not None, file.problems
    for case in file.cases:
        verdict = play_with_crashes(file.app, case, lambda *_: None)
        assert (verdict.failure, verdict.place) == (None, None)
        assert verdict.deaths > 5


def test_a_setup_makes_real_tables(tmp_path: Path) -> None:
    steps = STEPS.replace("message:\n", "message:\n    - setup: tables.sql\n", 1)
    file = load(loaded(tmp_path, steps), {})
    assert file.app is not None
    verdict = play_with_crashes(file.app, file.cases[0], lambda *_: None)
    assert (verdict.failure, verdict.place) == (None, None)


def test_a_row_may_come_later(tmp_path: Path) -> None:
    file = load(loaded(tmp_path, WAITS, missing=", missing: {wait: 1m}"), {})
    assert file.app is not None
    verdict = play_with_crashes(file.app, file.cases[0], lambda *_: None)
    assert (verdict.failure, verdict.place) == (None, None)


def test_a_row_that_the_table_does_not_take(tmp_path: Path) -> None:
    steps = STEPS.replace("message:\n", "message:\n    - setup: tables.sql\n", 1).replace("tier: 2", "teir: 2")
    file = load(loaded(tmp_path, steps), {})
    assert file.app is not None
    failure = play(file.app, file.cases[0])
    assert failure is not None
    assert "the row of customers cannot be written" in failure.text


def test_a_step_of_a_table_without_a_lookup(tmp_path: Path) -> None:
    file = load(
        loaded(tmp_path, STEPS.replace("table: customers", "table: costumers").replace("KIND: cust", "KIND: cost")), {}
    )
    assert lines(file.problems, tmp_path)[0] == (
        "f.yaml:17:7: tests.a row is added to the message[0].row: is of a source that no lookup has; did you mean "
        "customers?"
    )
