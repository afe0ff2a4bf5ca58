"""The committed JSON Schema is that of the models, and says what loading says."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from sluicegate.streams.config.schema import schema
from sluicegate.streams.config.sections import models
from tests.unit.config.files import GOOD
from tests.unit.config.test_build import EVERYTHING

COMMITTED = Path(models.__file__).parents[3] / "schemas" / "documents" / "sluicegate.schema.json"


@pytest.fixture(scope="module")
def errors():
    validator = jsonschema.Draft202012Validator(json.loads(COMMITTED.read_text()))
    return lambda text: [error.json_path for error in validator.iter_errors(yaml.safe_load(text))]


def test_the_committed_schema_is_up_to_date():
    command = "python -m sluicegate.streams.config.schema > schemas/documents/sluicegate.schema.json"
    assert json.loads(COMMITTED.read_text()) == schema(), f"run: {command}"


def test_it_is_a_schema_and_takes_every_key(errors):
    jsonschema.Draft202012Validator.check_schema(schema())
    assert errors(EVERYTHING.replace("2026-01-31T12:00:00+01:00", "'2026-01-31T12:00:00+01:00'")) == []
    assert errors(GOOD + "http: false\n") == []


def test_any_value_may_be_a_variable(errors):
    text = EVERYTHING.replace("count: 100", "count: ${N}").replace("30s", "'${T:-30s}'").replace("lossy", "${LEVEL}")
    assert errors(text.replace("2026-01-31T12:00:00+01:00", "${START}")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("app: shop", "app: my shop"),
        ("app: shop", "ap: shop"),
        ("count: 10", "count: ten"),
        ("count: 10", "count: 0"),
        ("count: 10", "timeout: {after: 30}"),
        ("count: 10", "compute: {x: {avg: a}}"),
        ("count: 10", "on_full: drop"),
        ("  a:\n", "  a:\n    dedupe: {horizon: 1h}\n"),
        ("  a:\n", "  a:\n    dedupe: {id: {}}\n"),
        ("from: orders", "from: []"),
        ("from: orders", "from: {topic: t, dedupe: {id: x}}"),
        ("sqlite:", "oracle:"),
        ("bootstrap.servers", "bootstrap.server"),
        ("{bootstrap.servers:", "{group.id: x, bootstrap.servers:"),
        ("  a:\n", "  a b:\n"),
    ],
)
def test_an_editor_sees_what_is_wrong(errors, old, new):
    assert errors(GOOD.replace(old, new)) != []


def test_an_editor_knows_the_types_of_fields(errors):
    good = GOOD.replace(
        "from: orders", "from: orders\n    fields: {a: number, b: text or null, c: [text], d: {e: time}}"
    )
    assert errors(good) == []
    assert errors(good.replace("a: number", "a: nmber")) != []


AVRO = ("format: avro", "schema: o.avsc", "writer_schema: p.avsc", "framing: confluent", "schema_id: 7")


def test_an_editor_knows_the_keys_of_avro(errors):
    good = GOOD.replace("from: orders", "\n    ".join(["from: orders", *AVRO]))
    good = good.replace(
        "{topic: totals}", "{topic: totals, format: avro, schema: r.avsc, framing: none, schema_id: '${ID}'}"
    )
    assert errors(good) == []
    assert errors(good.replace("framing: confluent", "framing: magic")) != []
