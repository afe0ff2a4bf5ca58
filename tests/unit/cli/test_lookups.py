"""`check --connect` runs each lookup without a key; `eval` answers for a record that has its row."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluicegate.connectors import open_store
from sluicegate.streams.cli import main

FILE = """\
app: shop
kafka: {bootstrap.servers: embedded}
store: sqlite:///state.db
dead_letters: dead
agents:
  enrich:
    from: orders
    lookup: {customer: {table: customers, column: id, key: customer_id, fields: [name, tier]}}
    to: {topic: enriched, select: {who: customer.name}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "shop.yaml").write_text(FILE)
    return tmp_path / "shop.yaml"


def said(*arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(main, [*arguments, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_lookup_is_tried(path: Path) -> None:
    assert "not checked before it is migrated: the lookups customer of agent enrich" in str(
        said("check", str(path), "--connect")
    )
    store: Any = open_store("sqlite:///state.db", str(path.parent))
    store.migrate()
    code, lines = said("check", str(path), "--connect")
    assert code == 3
    assert "agent enrich: lookup-failed: customer (table customers): no such table: customers" in str(lines)
    assert "correct the lookup, make the table, or grant the right to read it" in str(lines)
    store._database.run(lambda db: db.run("create table customers (id text, name text, tier text)"))
    code, lines = said("check", str(path), "--connect")
    assert (code, "agent enrich can look up customer" in str(lines)) == (0, True)
    store.close()


def test_a_record_with_its_row_is_answered(path: Path) -> None:
    code, lines = said("eval", str(path), "enrich", "--value", '{"customer": {"name": "Ann"}}')
    assert (code, "Ann" in str(lines)) == (0, True)
