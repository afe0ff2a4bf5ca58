"""`sluicegate docs` and `sluicegate schema`."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from sluicegate.streams.cli import docs, main
from sluicegate.streams.config import reference
from sluicegate.streams.config.schema import schema

KEYS = reference.references()


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *args: CliRunner().invoke(main, list(args))


def test_schema_prints_the_schema(invoke):
    assert json.loads(invoke("schema").stdout) == schema()


@pytest.mark.parametrize("written", ["agents.*.aggregate.window.grace", "agents.x.aggregate.window.grace", "grace"])
def test_a_key_is_named_by_its_path_or_the_end_of_it(invoke, written):
    result = invoke("docs", written)
    assert result.exit_code == 0
    name, paragraph, rest = result.stdout.partition("\n")[0], *result.stdout.partition("\n")[2].split("\n\n")
    described = " ".join(paragraph.split())
    assert (name, described) == ("agents.*.aggregate.window.grace", KEYS[name].description)
    assert rest.splitlines() == [
        "  type:     duration",
        "  required: no",
        "  default:  0s",
        "  example:",
        "    agents:",
        "      baskets:",
        "        aggregate:",
        "          window:",
        "            grace: 30s",
    ]


def test_a_key_with_keys_names_them(invoke):
    assert invoke("docs", "retry").stdout.splitlines()[-1] == "  keys:     attempts, backoff, isolate_after"


def test_an_end_of_several_keys_lists_them(invoke):
    lines = [line.split()[0] for line in invoke("docs", "isolation.level").stdout.splitlines() if line.strip()]
    assert lines == []  # Sluicegate sets it, so it is no key
    lines = [line.split()[0] for line in invoke("docs", "backoff").stdout.splitlines() if line.strip()]
    assert lines[-2:] == ["outbox.backoff", "agents.*.retry.backoff"]


def test_near_misses_are_named(invoke):
    result = invoke("docs", "windw.grace")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "windw.grace is not a key of the file; did you mean agents.*.aggregate.window.grace" in result.stderr
    assert invoke("docs", "zzzz").stderr == (
        "sluicegate: zzzz is not a key of the file; `sluicegate docs` lists all keys\n"
    )


def test_each_key_with_the_end_that_was_meant_is_named(invoke):
    meant = "did you mean schema_registry.timeout or agents.*.aggregate.timeout or agents.*.correlate.timeout?"
    assert meant in invoke("docs", "timeot").stderr


def test_without_a_key_it_lists_those_of_the_file(invoke):
    text = invoke("docs").stdout
    assert all(f" {name} " in text for name in KEYS if not name.startswith("kafka."))


def test_json_has_the_same(invoke):
    (entry,) = json.loads(invoke("docs", "outbox.lease", "--json").stdout)["keys"]
    key = KEYS["outbox.lease"]
    assert entry == {
        "key": "outbox.lease",
        "description": key.description,
        "types": ["duration"],
        "required": False,
        "default": "30s",
        "example": "30s",
    }


@pytest.mark.parametrize("key", KEYS.values(), ids=str)
def test_every_key_is_found_by_its_name_and_its_example_is_yaml(key):
    assert reference.matching(key.name) == [key]
    value = yaml.safe_load(docs_example(key))
    for part in key.path:
        value = value[0] if isinstance(value, list) else value
        value = next(iter(value.values())) if part == reference.ANY else value[part]
    assert value == key.example


def docs_example(key):
    from importlib import import_module

    return import_module(docs.__module__)._example(key.path, key.example)
