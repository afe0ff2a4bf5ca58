"""The JSON Schemas of what we write, against what the engine really writes."""

import ast
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sluicegate.schemas import Avro, codec
from sluicegate.schemas.avro_check import strict
from sluicegate.streams.agent import Reducer, Until
from sluicegate.streams.aggregation.events import COUNT_LOWERED, EARLY, EMPTY, MERGED, REASONS, WINDOW, Fire
from sluicegate.streams.contracts.headers import FINAL, MAC
from tests.house import sources
from tests.unit.engine.driver import Driver, Log, ManualClock, memory
from tests.unit.engine.scene import a_log, an_agent, feed

OF_WINDOWS = ("sluicegate-window", "sluicegate-revision", "sluicegate-closed")
BY_RECORDS = {"count", "timeout", "until", "limit"}


def schema(name: str) -> dict[str, Any]:
    return json.loads((files("sluicegate.schemas") / "documents" / f"{name}.schema.json").read_text())


RESULT, LETTER, HEADERS = schema("result"), schema("dead-letter-headers"), schema("result-headers")
ROWS = (Reducer("total", "sum", "amount"), Reducer("rows", "collect"), Reducer("kinds", "distinct", "amount"))


@pytest.fixture(scope="module")
def written() -> Log:
    """Results for every reason but manual, and dead letters for most of theirs."""
    log, clock = a_log(), ManualClock()
    feed(log, ("count", 1), ("count", 1), ("count", 1), ("until", 99), ("limit", 1), ("limit2", 1), ("limit3", 1))
    log.append(
        "in", 0, b"\xff\xfe", b'{"amount":5}', [("traceparent", b"00-x"), ("sluicegate-id", b"old"), ("plain", b"\xff")]
    )
    bad = [b"{", None, b"{}", b'{"amount":"x"}', b'{"amount":1' + b" " * 3000 + b"}"]
    for value in bad:
        log.append("in", 0, b"k", value, [("sluicegate-id", b"old"), ("plain", b"\xff")])
    log.append("in", 0, None, b'{"amount":1}')
    agent = an_agent(
        compute=ROWS,
        until=Until("amount", 99),
        max_groups=2,
        max_record_bytes=2000,
        max_bytes=60,
        max_buffered_bytes=500,
    )
    Driver(agent, memory(clock), log, clock).give(0).turns().later(31).turns()
    return log


def texts(message: Any) -> dict[str, str]:
    return {name: value.decode("ascii") for name, value in message.h if name.startswith("sluicegate-")}


def test_every_result_keeps_to_its_schema(written: Log) -> None:
    documents = [json.loads(message.v or b"") for message in written.topics["out"][0]]
    assert {d["reason"] for d in documents} == BY_RECORDS
    assert any("key_base64" in d for d in documents)
    for document in documents:
        jsonschema.validate(document, RESULT)


def test_the_headers_of_every_result_keep_to_their_schema(written: Log) -> None:
    results = [texts(message) for message in written.topics["out"][0]]
    others = {MAC, FINAL, "traceparent", "sluicegate-replay", "sluicegate-replaces", *OF_WINDOWS}
    assert {name for result in results for name in result} | others == {*HEADERS["properties"]}
    for result in results:
        jsonschema.validate(result, HEADERS)


def test_the_headers_of_every_dead_letter_keep_to_their_schema(written: Log) -> None:
    letters = [texts(message) for message in written.topics["dead"][0]]
    assert {x["sluicegate-dead-reason"] for x in letters} == {
        "undecodable",
        "null-value",
        "missing-field",
        "wrong-type",
        "too-large",
        "no-key",
    }
    for letter in letters:
        jsonschema.validate(letter, LETTER)


def test_every_reason_is_in_the_schema(written: Log) -> None:
    listed = (Fire.__doc__ or "").partition("`reason` is ")[2].partition(". ")[0].replace(" or ", " ")
    reasons = re.findall(r"[a-z]+(?:-[a-z]+)?", listed)
    assert {*reasons, "replay", "drop", WINDOW, EARLY, MERGED, EMPTY} == set(RESULT["properties"]["reason"]["enum"])
    assert set(reasons) == {*BY_RECORDS, "manual", COUNT_LOWERED}
    assert set(reasons) == set(REASONS)
    document = json.loads(written.topics["out"][0][0].v or b"")
    jsonschema.validate(document | {"reason": COUNT_LOWERED}, RESULT)


@pytest.mark.parametrize(
    "wrong",
    [{"count": -1}, {"reason": "boredom"}, {"opened_at": "2026-11-21 07:42"}, {"key_base64": "//4="}, {"count": "3"}],
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


@pytest.mark.parametrize("name", HEADERS["required"])
def test_a_result_without_one_of_its_headers_does_not_pass(written: Log, name: str) -> None:
    result = texts(written.topics["out"][0][0])
    del result[name]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(result, HEADERS)


@pytest.mark.parametrize("name", ["result", "result-headers", "dead-letter-headers"])
def test_the_schema_itself_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


def fields(name: str) -> list[dict[str, Any]]:
    schema_fields: list[dict[str, Any]] = json.loads(
        (files("sluicegate.schemas") / "documents" / f"{name}.avsc").read_text()
    )["fields"]
    return schema_fields


def test_the_avro_schema_of_a_result_has_its_fields_and_those_that_must_be_there_have_no_default() -> None:
    assert [field["name"] for field in fields("result")] == [name for name in RESULT["properties"] if name != "window"]
    assert [field["name"] for field in fields("result") if "default" not in field] == RESULT["required"]


@pytest.mark.parametrize(("name", "headers"), [("dead-letter", LETTER), ("result-headers", HEADERS)])
def test_the_avro_schema_of_headers_has_them_under_names_that_avro_allows(name: str, headers: dict[str, Any]) -> None:
    assert [field["header"] for field in fields(name)] == list(headers["properties"])
    assert [field["header"] for field in fields(name) if "default" not in field] == headers["required"]
    assert all(field["name"] == field["header"].replace("-", "_") for field in fields(name))


@pytest.mark.parametrize("name", ["result", "result-headers", "dead-letter"])
def test_the_avro_schema_itself_is_one_and_takes_what_is_written(name: str, written: Log) -> None:
    text = (files("sluicegate.schemas") / "documents" / f"{name}.avsc").read_text()
    form = codec("avro", Avro(text))
    assert strict(text) is None
    names = [field["name"] for field in fields(name)]
    if name == "result":
        documents = [json.loads(message.v or b"") for message in written.topics["out"][0]]
        documents = [{key: value for key, value in document.items() if key in names} for document in documents]
    else:
        topic, known = ("dead", LETTER) if name == "dead-letter" else ("out", HEADERS)
        documents = [
            {key.replace("-", "_"): text for key, text in texts(message).items() if key in known["properties"]}
            for message in written.topics[topic][0]
        ]
    assert len(documents) > 3
    for document in documents:
        read = form.decode(form.encode(document))
        assert read.keys() == set(names)
        assert [read[key] for key in document if not key.endswith("_at")] == [
            document[key] for key in document if not key.endswith("_at")
        ]


def test_the_schema_of_a_dead_letter_has_each_reason_of_the_code() -> None:
    """The words that the code refuses a record with: the third argument of `refuse`, and the first of `NoTime`."""
    trees = [tree for file, tree in sources(Path(__file__).parents[3]) if file.startswith("streams/")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [(ast.unparse(call.func).rpartition(".")[2], call.args) for call in calls]
    words = [args[2] for name, args in named if name == "refuse" and len(args) > 2]
    words += [args[0] for name, args in named if name == "NoTime" and args]
    values = {word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)}
    assert {"late", "time-ahead", "bad-time", "no-time", "no-key"} <= values
    assert values <= {*LETTER["properties"]["sluicegate-dead-reason"]["enum"]}
