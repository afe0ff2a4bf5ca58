"""The limits of what a record may be (docs/bounds.md has the table): at each of them a dead letter with all its
bytes, and the next record goes on."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.schemas.json import DEEPEST, document
from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Handler, Let, Reducer, Selected
from sluicegate.streams.testing.driver import TestDriver
from tests.fuzz import handlers
from tests.fuzz.records import VALUES
from tests.fuzz.seeds import TIMES

GOOD = b'{"deep":1,"tags":2,"s":"x"}'


def nested(levels: int, name: str = "tags") -> bytes:
    """A document of so many levels."""
    return b'{"s":"x","%b":' % name.encode() + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def an_agent(count: int = 2, compute: Any = VALUES, handler: str = "", **about: Any) -> Agent:
    policy: Any = "ignore" if any(reducer.field or reducer.function for reducer in compute) else "dead-letter"
    rule = Aggregation(count=count, compute=compute, on_missing=policy) if count else None
    functions = Handler((f"tests.fuzz.handlers:{handler}",), attempts=1) if handler else None
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=functions, **about)


def outcome(agent: Agent, *records: bytes | None, **sent: Any) -> tuple[list[Any], list[tuple[str, bytes | None]]]:
    """What comes out, and the dead letters as (reason, bytes)."""
    with TestDriver(App("app", "memory://", (agent,)), partitions=1) as driver:
        for record in records:
            driver.send("in", record, **{"key": "k", **sent})
        letters = [(letter.reason or "", letter.raw) for letter in driver.dead_letters()]
        return [output.value for output in driver.read("out")], letters


def of_every_depth(agent: Agent, depths: Iterable[int]) -> list[tuple[str, bytes | None]]:
    """The dead letters, after a record of each depth, each of a group of its own."""
    with TestDriver(App("app", "memory://", (agent,)), partitions=1) as driver:
        for levels in depths:
            driver.send("in", nested(levels), key=str(levels))
        return [(letter.reason or "", letter.raw) for letter in driver.dead_letters()]


def test_a_document_that_is_nested_too_deep_is_a_dead_letter_where_its_values_are_kept() -> None:
    """Of one, of some 980 levels, it was so that it could be read and not be written into the changelog: it ended the
    process."""
    depths = [*range(DEEPEST + 1, 1000, 3 if TIMES == 1 else 1), 5_000, 200_000]
    assert of_every_depth(an_agent(), depths) == [("undecodable", nested(levels)) for levels in depths]


def test_its_letter_says_so_in_plain_words() -> None:
    with TestDriver(App("app", "memory://", (an_agent(),)), partitions=1) as driver:
        for levels in (DEEPEST + 1, 200_000):
            driver.send("in", nested(levels), key=str(levels))
        errors = [letter.headers["sluicegate-dead-error"] for letter in driver.dead_letters()]
    assert errors == [f"is nested deeper than {DEEPEST} levels", "is nested too deep to be decoded"]


def test_without_the_limit_such_a_record_is_an_error_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.schemas.json.DEEPEST", 10**9)
    with capture_logs() as lines:
        of_every_depth(an_agent(), range(800, 1000))
    assert any(line["event"] == "partition.fault" and "RecursionError" in line["error"] for line in lines)


def test_one_of_just_so_many_levels_is_kept_and_comes_out() -> None:
    value = nested(DEEPEST, "deep")
    results, letters = outcome(an_agent(count=1), value)
    assert (letters, results[0]["first"]) == ([], json.loads(value)["deep"])


@pytest.mark.parametrize(
    "agent", [an_agent(count=0, handler="keep"), an_agent(compute=(Reducer("all", "collect"),), handler="keep")]
)
def test_a_handler_is_not_called_with_it(agent: Agent) -> None:
    handlers.called.clear()
    _, letters = outcome(agent, nested(DEEPEST + 1), GOOD, GOOD)
    assert letters == [("undecodable", nested(DEEPEST + 1))]
    assert "[[" not in json.dumps(handlers.called)
    assert handlers.called


def test_brackets_inside_texts_are_no_levels() -> None:
    value = json.dumps({"deep": "[{" * 500, "tags": [[1]] * 100, "s": "x"}).encode()
    results, letters = outcome(an_agent(count=1), value)
    assert (letters, results[0]["first"]) == ([], "[{" * 500)


@pytest.mark.parametrize("value", [b"1", b"[]", b'"[[["', b'{"a":[{"b":[]}]}', b"[" * DEEPEST + b"]" * DEEPEST])
def test_what_is_not_too_deep_reads_as_ever(value: bytes) -> None:
    assert document(value) == json.loads(value)


HUGE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a record": ({"max_record_bytes": 100}, {}, "too-large"),
    "a key": ({}, {"key": b"k" * 300_000}, "too-large"),
    "no key": ({}, {"key": None}, "no-key"),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_is_too_large_is_a_dead_letter(name: str) -> None:
    about, sent, reason = HUGE[name]
    value = b'{"s":"%b"}' % (b"x" * 200)
    assert outcome(an_agent(**about), value, **sent) == ([], [(reason, value)])


@pytest.mark.parametrize("format", ["json", "raw"])
def test_a_group_keeps_as_many_bytes_as_it_may_and_a_result_is_never_larger_than_a_message(format: str) -> None:
    agent = an_agent(count=100, compute=(Reducer("all", "collect"),), format=format)
    value = b'"%b"' % (b"x" * 100_000)
    results, letters = outcome(agent, *[value] * 25)
    assert letters == []
    assert len(results) >= 2
    assert all(len(json.dumps(result)) < 1_000_000 for result in results)


def test_an_output_of_a_handler_that_no_broker_takes_is_a_dead_letter_of_its_message() -> None:
    results, letters = outcome(an_agent(count=0, handler="too_much"), b'{"a":1}')
    assert results == []
    assert [value for _, value in letters] == [b'{"a":1}']


def test_a_record_with_very_many_headers_and_large_ones_goes_its_way(fuzzed: Callable[[int], None]) -> None:
    headers = [(f"h{number}", b"x" * 4096) for number in range(200)] + [
        ("traceparent", b"y" * 1000),
        ("traceparent", None),
    ]
    results, letters = outcome(an_agent(count=1), GOOD, headers=headers)
    assert (len(results), letters) == (1, [])
    _, letters = outcome(an_agent(count=1), b"{", headers=headers)
    assert letters == [("undecodable", b"{")]
    fuzzed(2)


@pytest.mark.parametrize("where", ["select of a forwarder", "select of a result", "let"])
def test_a_computed_value_much_longer_than_its_record_is_not_written(where: str) -> None:
    """A note that each of the lines of an order gets is one text in memory, and 280 MB in the result."""
    lines = 'items.map(i, {"sku": i.sku, "note": note})'
    chosen = Destination("out", select=(Selected("lines", lines),))
    value = json.dumps({"items": [{"sku": n} for n in range(4_000)], "note": "n" * 70_000, "s": "x"}).encode()
    rule = Aggregation(count=1, compute=(Reducer("items", "last", "items"), Reducer("note", "last", "note")))
    agent = {
        "select of a forwarder": Agent("a", ("in",), None, chosen, "dead"),
        "select of a result": Agent("a", ("in",), rule, chosen, "dead"),
        "let": Agent(
            "a",
            ("in",),
            Aggregation(count=1, compute=(Reducer("lines", "last", "lines"),)),
            Destination("out"),
            "dead",
            let=(Let("lines", lines),),
        ),
    }[where]
    results, letters = outcome(agent, value)
    assert (results, [reason for reason, _ in letters]) == ([], ["expression-failed"])
