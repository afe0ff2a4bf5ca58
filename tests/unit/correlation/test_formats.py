"""Legs in formats of their own: each is read with its schema, and is JSON in the result."""

from pathlib import Path

import pytest

from sluicegate.streams.config.checking import values
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play
from tests.unit.config.files import lines

SCHEMA = """{"type": "record", "name": "Card", "fields": [{"name": "invoice", "type": "string"},
 {"name": "amount", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}"""
FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///state.db
dead_letters: shop.dead
agents:
  approve:
    correlate:
      legs:
        invoice: {from: invoices, key: id}
        card: {from: cards, CARD, key: invoice, time: at}
        transfer: {from: transfers, key: invoice}
        approval: {from: approvals, key: invoice, keep: all}
      complete: has(invoice) && (has(card) || has(transfer)) && size(approval) >= 2
      timeout: {after: 7d, idle: 1h}
    to: {topic: approved}
tests:
  a card and two approvals:
    - send: {topic: invoices, key: x, value: {id: i-1}}
    - send: {topic: cards, key: x, value: {invoice: i-1, amount: 5, at: "2026-01-01T00:00:10Z"}}
    - send: {topic: approvals, key: x, value: {invoice: i-1, by: ann}}
    - expect_nothing: approved
    - send: {topic: approvals, key: x, value: {invoice: i-1, by: ben}}
    - expect:
        topic: approved
        key: i-1
        value:
          count: 4
          reason: until
          card: {invoice: i-1, amount: 5, at: "2026-01-01T00:00:10Z"}
          approval: [{invoice: i-1, by: ann}, {invoice: i-1, by: ben}]
  a card whose bytes are no Avro:
    - send: {topic: cards, key: x, value_base64: Pw==}
    - expect: {topic: shop.dead, reason: undecodable}
"""
AVRO = "format: avro, schema: card.avsc"


def written(folder: Path, card: str = AVRO) -> Path:
    (folder / "card.avsc").write_text(SCHEMA)
    (folder / "shop.yaml").write_text(FILE.replace("CARD", card))
    return folder / "shop.yaml"


@pytest.mark.parametrize("number", range(2))
def test_a_leg_in_avro_meets_legs_in_json(tmp_path: Path, number: int) -> None:
    file = loaded(written(tmp_path))
    assert file.app is not None, file.problems
    assert play(file.app, file.cases[number]) is None


def test_a_writer_schema_beside_a_registry_is_a_mistake_as_it_is_of_an_agent(tmp_path: Path) -> None:
    path = written(tmp_path, "format: avro, schema: card.avsc, framing: confluent, writer_schema: card.avsc")
    path.write_text(path.read_text() + 'schema_registry: {url: "http://localhost:8081"}\n')
    file = loaded(path)
    assert any("legs.card.writer_schema: excludes schema_registry" in line for line in lines(file.problems, tmp_path))


def test_its_agent_reads_avro_and_the_correlation_json(tmp_path: Path) -> None:
    app = loaded(written(tmp_path)).app
    assert app is not None
    formats = {agent.name: (agent.format, agent.schema is not None) for agent in app.agents}
    assert formats["approve.card"] == ("avro", True)
    assert {formats["approve"], formats["approve.invoice"]} == {("json", False)}
    values.check(app)


@pytest.mark.parametrize(
    ("card", "text"),
    [
        ("format: avro", "schema"),
        ("format: avro, schema: card.json", "cannot be read"),
        ("schema: card.avsc", "belongs to format: avro"),
        ("format: raw", "has no fields"),
        ("format: avro, schema: card.avsc, schema_id: 3", "has no meaning without framing"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, card: str, text: str) -> None:
    file = loaded(written(tmp_path, card))
    assert file.app is None
    assert any("legs" in line and text in line for line in lines(file.problems, tmp_path)), file.problems
