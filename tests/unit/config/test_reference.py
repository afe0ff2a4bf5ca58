"""Every key of the file has one description, in the models, and an example that the file may hold."""

import jsonschema
import pytest

from sluicegate.streams import units
from sluicegate.streams.config.reference import ANY, _keys, references
from sluicegate.streams.config.schema import schema

MADE = schema()
KEYS = references()
EVERY_PROPERTY = [*_keys(MADE, MADE["$defs"], ())]


def lacking(made):
    """The keys of a schema that have no description."""
    keys = _keys(made, made["$defs"], ())
    return [".".join(path) for path, node, _ in keys if not node.get("description", "").strip()]


def test_every_key_has_a_description_that_is_a_sentence():
    assert lacking(MADE) == [], "describe the key in its model: Field(description=...)"
    ours = [key for key in KEYS.values() if key.path[0] != "kafka"]
    assert [key.name for key in ours if not key.description.endswith(".")] == []
    assert len(ours) > 150


def test_a_key_without_a_description_is_found():
    """The twin: one description less, at the top and deep below."""
    made = schema()
    del made["$defs"]["WindowModel"]["properties"]["grace"]["description"]
    del made["properties"]["app"]["description"]
    assert lacking(made) == ["app", "agents.*.aggregate.window.grace"]


def test_a_key_has_the_same_description_wherever_the_schema_has_it():
    """A key with several forms stands in the schema once for each."""
    texts = {}
    for path, node, _ in EVERY_PROPERTY:
        texts.setdefault(path, set()).add(node["description"])
    assert {path: text for path, text in texts.items() if len(text) > 1} == {}


def test_the_example_of_every_key_is_a_value_of_it():
    wrong = []
    for path, node, _ in EVERY_PROPERTY:
        part = {"$defs": MADE["$defs"], **node}
        if not jsonschema.Draft202012Validator(part).is_valid(KEYS[".".join(path)].example):
            wrong.append((".".join(path), KEYS[".".join(path)].example))
    assert wrong == []


def test_every_key_of_ours_has_an_example_of_its_own():
    reducers = ("agents", ANY, "aggregate", "compute", ANY)
    without = [
        ".".join(path)
        for path, node, _ in EVERY_PROPERTY
        if "examples" not in node and path[0] != "kafka" and path[:5] != reducers
    ]
    assert without == []


def test_each_default_is_a_value_that_the_file_may_hold():
    wrong = []
    for path, node, _ in EVERY_PROPERTY:
        if node.get("default") is None or path[-1] == "tests":
            continue
        if not jsonschema.Draft202012Validator({"$defs": MADE["$defs"], **node}).is_valid(node["default"]):
            wrong.append((".".join(path), node["default"]))
    assert wrong == []
    assert KEYS["start_timeout"].default == "30s"
    assert KEYS["agents.*.aggregate.max_buffered_bytes"].default == "512MiB"


def test_a_destination_with_an_envelope_is_judged():
    """The definition of the envelope is where the destination refers to."""
    part = {"$ref": "#/$defs/DestinationModel", "$defs": MADE["$defs"]}
    judged = jsonschema.Draft202012Validator(part)
    assert judged.is_valid({"topic": "a", "envelope": {"cloudevents": "binary", "type": "x"}})
    assert not judged.is_valid({"topic": "a", "envelope": {"cloudevents": "binary"}})


@pytest.mark.parametrize("seconds", [0.25, 1.0, 30.0, 90.0, 120.0, 3600.0, 86400.0, 129600.0])
def test_a_written_duration_is_read_as_the_same(seconds):
    assert units.duration(units.written_duration(seconds)) == seconds


@pytest.mark.parametrize("amount", [1, 1000, 1024, 900_000, 1 << 20, 1_000_000, 512 << 20, 3 << 30, 1025])
def test_a_written_size_is_read_as_the_same(amount):
    assert units.size(units.written_size(amount)) == amount
