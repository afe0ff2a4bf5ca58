"""The JSON Schemas of what we write, against what the engine really writes."""

import json
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

from streams.agent import Reducer, Until
from tests.unit.engine.driver import Clock, Driver, Log, memory
from tests.unit.engine.scene import a_log, an_agent, feed


def schema(name: str) -> dict[str, Any]:
    return json.loads((files("schemas") / "documents" / f"{name}.schema.json").read_text())


RESULT, LETTER = schema("result"), schema("dead-letter-headers")
ROWS = (Reducer("total", "sum", "amount"), Reducer("rows", "collect"), Reducer("kinds", "distinct", "amount"))


@pytest.fixture(scope="module")
def written() -> Log:
    """Results for every reason but manual, and dead letters for most of theirs."""
    log, clock = a_log(), Clock()
    feed(log, ("count", 1), ("count", 1), ("count", 1), ("until", 99), ("limit", 1), ("limit2", 1), ("limit3", 1))
    log.append("in", 0, b"\xff\xfe", b'{"amount":5}', [("traceparent", b"00-x"), ("sluicegate-id", b"old"), ("plain", b"\xff")])
    bad = [b"{", None, b"{}", b'{"amount":"x"}', b'{"amount":1' + b" " * 3000 + b"}"]
    for value in bad:
        log.append("in", 0, b"k", value, [("sluicegate-id", b"old"), ("plain", b"\xff")])
    log.append("in", 0, None, b'{"amount":1}')
    agent = an_agent(compute=ROWS, until=Until("amount", 99), max_groups=2, max_record_bytes=2000, max_bytes=60, max_buffered_bytes=500)
    Driver(agent, memory(clock), log, clock).give(0).turns().later(31).turns()
    return log


def texts(message: Any) -> dict[str, str]:
    return {name: value.decode("ascii") for name, value in message.h if name.startswith("sluicegate-")}


def test_every_result_keeps_to_its_schema(written: Log) -> None:
    documents = [json.loads(message.v or b"") for message in written.topics["out"][0]]
    assert {d["reason"] for d in documents} == {"count", "timeout", "until", "limit"}
    assert any("key_base64" in d for d in documents)
    for document in documents:
        jsonschema.validate(document, RESULT)


def test_the_headers_of_every_dead_letter_keep_to_their_schema(written: Log) -> None:
    letters = [texts(message) for message in written.topics["dead"][0]]
    assert {x["sluicegate-dead-reason"] for x in letters} == {"undecodable", "null-value", "missing-field", "too-large", "no-key"}
    for letter in letters:
        jsonschema.validate(letter, LETTER)


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"reason": "boredom"}, {"opened_at": "2026-11-21 07:42"}, {"key_base64": "//4="}, {"count": "3"}]
)
def test_a_wrong_result_does_not_pass(written: Log, wrong: dict[str, Any]) -> None:
    document = json.loads(written.topics["out"][0][0].v or b"")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document | wrong, RESULT)


@pytest.mark.parametrize("name", LETTER["required"])
def test_a_dead_letter_without_one_of_its_headers_does_not_pass(written: Log, name: str) -> None:
    letter = texts(written.topics["dead"][0][0])
    del letter[name]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(letter, LETTER)


@pytest.mark.parametrize("name", ["result", "dead-letter-headers"])
def test_the_schema_itself_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))
