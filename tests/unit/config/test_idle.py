"""Keys that change nothing beside the others are refused, and honoured where they do."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main

HEAD = """app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: sqlite:///shop.db
dead_letters: dead
agents:
  a: {from: in, to: {topic: out}, %s}
"""
COUNTS = "aggregate: {count: 2, compute: {n: count}}"
NO_FIELD = "has no meaning: the group needs no field"
NO_CLAUSE = "has no meaning: no clause reads the value, so a record goes on without being decoded"


def checked(folder: Path, text: str) -> tuple[int, str]:
    (folder / "f.yaml").write_text(text)
    done = CliRunner().invoke(main, ["check", str(folder / "f.yaml")])
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("on_error: {decode: skip}", f"agents.a.on_error.decode: {NO_CLAUSE}"),
        ("where: 'message.topic == \"x\"', on_error: {decode: skip}", f"agents.a.on_error.decode: {NO_CLAUSE}"),
        ("dedupe: {id: key}, on_error: {decode: skip}", f"agents.a.on_error.decode: {NO_CLAUSE}"),
        ("format: raw, handler: 'operator:neg', on_error: {decode: skip}", "has no meaning with format: raw"),
        ("on_error: {expression: skip}", "on_error.expression: has no meaning: the agent has no expression"),
        (f"{COUNTS}, on_error: {{expression: stop}}", "on_error.expression: has no meaning"),
        ("on_change: finish", "agents.a.on_change: has no meaning without an aggregation: no group is open"),
        ("aggregate: {count: 2, on_missing: skip}", f"agents.a.aggregate.on_missing: {NO_FIELD}"),
        ("aggregate: {until: group.count > 2, on_missing: ignore}", f"agents.a.aggregate.on_missing: {NO_FIELD}"),
    ],
)
def test_a_key_that_changes_nothing_is_refused(tmp_path: Path, keys: str, message: str) -> None:
    code, report = checked(tmp_path, HEAD % keys)
    assert code == 2
    assert message in report
    assert "leave it out" in report


@pytest.mark.parametrize(
    "keys",
    [
        "where: amount > 1, on_error: {decode: skip, expression: skip}",
        "where: has(message.value), on_error: {decode: skip}",
        "dedupe: {id: order}, on_error: {decode: skip}",
        "format: json-schema, schema: o.json, validate: true, on_error: {decode: skip}",
        f"{COUNTS}, on_error: {{decode: skip}}, having: n > 1, on_change: finish",
        "key: id, aggregate: {count: 2, on_missing: skip}",
        "aggregate: {window: {tumbling: 1m}, on_missing: skip}",
        "aggregate: {count: 2, until: {field: a, equals: 1}, on_missing: skip}",
        "aggregate: {count: 2, compute: {s: {sum: n}}, on_missing: ignore}",
    ],
)
def test_a_key_that_changes_something_is_not(tmp_path: Path, keys: str) -> None:
    (tmp_path / "o.json").write_text("{}")
    code, report = checked(tmp_path, HEAD % keys)
    assert code == 0, report


LEGS = "correlate: {legs: {order: orders, payment: {from: payments, key: id%s}}, timeout: 1m}"


@pytest.mark.parametrize(
    ("of_leg", "keys", "message"),
    [
        (
            "",
            "on_error: {expression: skip}",
            "agents.a.on_error.expression: has no meaning: the agent has no expression",
        ),
        ("", "on_change: finish", ""),
        (", where: amount > 1", "on_error: {expression: skip}", ""),
        ("", "on_error: {expression: skip}, having: count > 1", ""),
        ("", "on_change: flush", ""),
    ],
)
def test_a_key_that_changes_nothing_of_a_correlation_is_refused(
    tmp_path: Path, of_leg: str, keys: str, message: str
) -> None:
    text = (HEAD % f"{LEGS % of_leg}, {keys}").replace("from: in, ", "")
    code, report = checked(tmp_path, text)
    assert code == (2 if message else 0), report
    assert message in report


VALIDATING = "format: json-schema, schema: o.json, validate: true"
TESTS = """tests:
  only what is valid goes on:
    - send: {topic: in, key: a, value_base64: eyJhbW91bnQiOiAieCJ9}
    - expect: {topic: dead, reason: undecodable}
    - send: {topic: in, key: a, value_base64: eyJhbW91bnQiOiAxfQ==}
    - expect: {topic: out, value: {amount: 1}}
"""


@pytest.mark.parametrize("more", ["", ", where: 'message.topic == \"in\"'", ", dedupe: {id: key, horizon: 1s}"])
def test_a_forwarder_that_validates_makes_dead_letters_of_invalid_records(tmp_path: Path, more: str) -> None:
    (tmp_path / "o.json").write_text(json.dumps({"properties": {"amount": {"type": "number"}}}))
    tests = TESTS.replace(
        "    - send: {topic: in, key: a, value_base64: eyJhbW91bnQiOiAxf",
        "    - advance: 2s\n    - send: {topic: in, key: b, value_base64: eyJhbW91bnQiOiAxf",
    )
    (tmp_path / "f.yaml").write_text(HEAD % (VALIDATING + more) + tests)
    done = CliRunner().invoke(main, ["test", str(tmp_path / "f.yaml")])
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "1 of 1 tests passed"), done.output


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"pattern": "(?=x)a"}, "has the pattern '(?=x)a', which RE2 does not take"),
        ({"patternProperties": {r"(a)\1": {}}}, "which RE2 does not take"),
        ({"properties": {"a": {"unevaluatedProperties": False}}}, "has unevaluatedProperties, whose validation has no"),
        ({"$dynamicRef": "#a"}, "has $dynamicRef, whose validation has no bound"),
    ],
)
def test_check_refuses_a_schema_whose_validation_has_no_bound(tmp_path: Path, schema: object, message: str) -> None:
    (tmp_path / "o.json").write_text(json.dumps(schema))
    code, report = checked(tmp_path, HEAD % VALIDATING)
    assert code == 2
    assert message in report
    assert checked(tmp_path, HEAD % "format: json-schema, schema: o.json")[0] == 0
