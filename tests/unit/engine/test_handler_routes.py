"""What a handler sends without a topic goes through the routes and the `select` of `to`, as results do."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    Deduplication,
    Destination,
    EventEnvelope,
    Handler,
    OnError,
    Reducer,
    Selected,
)
from sluicegate.streams.contracts.ids import fire_ids, output_id
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.handlers.values import Message
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import a_log, shown

HERE = "tests.unit.engine.test_handler_routes"
BIG = Destination("big", where="amount > 10", select=(Selected("amount"), Selected("double", "amount * 2")))
SMALL = Destination("small", where="amount >= 0")
REST = Destination("rest")
sends: dict[Any, list[Any]] = {}
"""By amount: what the handler sends in place of its message."""
swallowed: list[Exception] = []


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    sends.clear()
    swallowed.clear()


@pytest.fixture
def log() -> Log:
    return a_log("in", "out", "big", "small", "rest", "dead")


def pass_on(message: Message, send: Any, session: Any) -> None:
    amount = message.value["amount"]
    if session is not None:
        session.values["calls"] = session.values.get("calls", 0) + 1
    for value in sends.get(amount, [message.value]):
        try:
            send(value)
        except TypeError as error:
            swallowed.append(error)


def close(batch: Any, send: Any, session: Any) -> None:
    if session is not None:
        session.values["calls"] = session.values.get("calls", 0) + 1
    for value in sends.get(batch.value["amount"], [batch.value]):
        send(value)


ONE = Aggregation(count=1, compute=(Reducer("amount", "last", "amount"),))
HOW: dict[str, dict[str, Any]] = {"in the commit": {}, "session": {"session": True}, "concurrency": {"concurrency": 2}}


def an_agent(*routes: Destination, grouped: bool = False, how: dict[str, Any] | None = None, **more: Any) -> Agent:
    handler = Handler((f"{HERE}:{'close' if grouped else 'pass_on'}",), **{"attempts": 3, **(how or {})})
    rule = ONE if grouped else None
    to = routes[0] if len(routes) == 1 else None
    listed = () if to else routes
    return Agent("a", ("in",), rule, to, "dead", handler=handler, routes=listed, **more)


def run(agent: Agent, log: Log, store: MemoryStore, clock: ManualClock, *values: Any) -> Driver:
    for number, value in enumerate(values):
        log.append("in", 0, b"k%d" % number, json.dumps(value).encode())
    driver = Driver(agent, store, log, clock).give(0)
    for _ in range(6):
        driver.turns(3).later(0.5)
    return driver


def values(log: Log, topic: str) -> list[Any]:
    return [json.loads(message.v or b"null") for message in distinct(log, topic)]


def letters(log: Log) -> list[tuple[str | None, ...]]:
    names = ("offset", "stage", "reason", "clause", "attempts")
    return [tuple(header(m, f"sluicegate-dead-{name}") for name in names) for m in distinct(log, "dead")]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("grouped", [False, True])
def test_what_a_handler_sends_goes_to_the_route_that_takes_it(
    how: str, grouped: bool, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = run(
        an_agent(BIG, SMALL, REST, grouped=grouped, how=HOW[how]),
        log,
        store,
        clock,
        *[{"amount": n} for n in (20, 3, -1)],
    )
    assert sorted(values(log, "big"), key=str) == [{"amount": 20, "double": 40}]
    assert [[value["amount"] for value in values(log, topic)] for topic in ("small", "rest")] == [[3], [-1]]
    assert letters(log) == []
    answers = {labels: v for name, labels, v in driver.worker._parts.meter.snapshot() if name == "expressions"}
    assert answers == {("to.big", "true"): 1, ("to.big", "false"): 2, ("to.small", "true"): 1, ("to.small", "false"): 1}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("grouped", [False, True])
def test_what_no_route_takes_makes_its_message_or_group_a_dead_letter_without_another_call(
    how: str, grouped: bool, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    sends[1] = [{"amount": 30}, {"amount": -5}]
    agent = an_agent(BIG, SMALL, grouped=grouped, how=HOW[how])
    run(agent, log, store, clock, *[{"amount": n} for n in (2, 1, 40)])
    assert letters(log) == [("1", "handler", "unrouted", None, "1")]
    assert ([value["amount"] for value in values(log, "small")], values(log, "big")) == (
        [2],
        [{"amount": 40, "double": 80}],
    )
    [letter] = distinct(log, "dead")
    assert json.loads(letter.v or b"")["amount"] == 1
    if how == "session":
        assert store.values["calls"] == 2  # what the call of the dead letter wrote is undone


@pytest.mark.parametrize("grouped", [False, True])
def test_drop_leaves_out_what_no_route_takes(grouped: bool, log: Log, store: MemoryStore, clock: ManualClock) -> None:
    sends[1] = [{"amount": -5}, {"amount": 30}]
    run(an_agent(BIG, SMALL, grouped=grouped, unrouted="drop"), log, store, clock, {"amount": 1})
    assert (values(log, "big"), values(log, "small"), letters(log)) == ([{"amount": 30, "double": 60}], [], [])


@pytest.mark.parametrize("expression", ["dead-letter", "skip", "stop"])
@pytest.mark.parametrize("how", HOW)
def test_an_expression_without_an_answer(
    how: str, expression: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    sends[1] = [{"x": 1}]
    agent = an_agent(BIG, SMALL, how=HOW[how] | {"then": "park"}, on_error=OnError(expression=expression))
    driver = run(agent, log, store, clock, {"amount": 2}, {"amount": 1})
    if expression == "stop":
        assert shown(driver)[1]["in", 0] == ("halted", "expression-stopped")
    else:
        assert letters(log) == [("1", "handler", "expression-failed", "to.big", "1")]
        assert [value["amount"] for value in values(log, "small")] == [2]


def test_outputs_are_numbered_over_all_sends_and_routes(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    sends[1] = [{"amount": 30}, {"amount": 3}]
    run(an_agent(replace(BIG, goes_on=True), SMALL), log, store, clock, {"amount": 1})
    fire = fire_ids(Partition("app", "a", "in", 0), log.ids["in"])(0)
    topics = {
        header(message, "sluicegate-id"): message.t for topic in ("big", "small") for message in distinct(log, topic)
    }
    assert topics == {output_id(fire, 0): "big", output_id(fire, 1): "small", output_id(fire, 2): "small"}


def test_select_alone_and_a_tombstone(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    sends[1] = [{"amount": 1, "x": 2}, None, b"bytes"]
    run(an_agent(Destination("out", select=(Selected("x"), Selected("y")))), log, store, clock, {"amount": 1})
    assert [message.v for message in distinct(log, "out")] == [b'{"x":2}', None]
    assert [str(error).partition(":")[0] for error in swallowed] == ["send() of bytes"]


def test_a_topic_that_is_named_gets_the_value_as_it_is(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    handler = Handler((f"{HERE}:named",))
    agent = Agent("a", ("in",), None, None, "dead", handler=handler, routes=(BIG, SMALL))
    run(agent, log, store, clock, {"amount": 1})
    assert (values(log, "big"), values(log, "rest")) == ([{"amount": 1}], [{"amount": 1}])


def named(message: Message, send: Any) -> None:
    send(message.value, topic="big")
    send(message.value, topic="rest")


def test_each_route_has_its_own_envelope(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    one = Destination("out", where="amount > 10", envelope=EventEnvelope("binary", "large"))
    other = Destination("out", envelope=EventEnvelope("binary", "small"))
    run(an_agent(one, other), log, store, clock, {"amount": 1}, {"amount": 20})
    assert [header(message, "ce_type") for message in distinct(log, "out")] == ["small", "large"]


def test_the_id_of_a_message_whose_outputs_no_route_takes_is_not_remembered(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(BIG, SMALL, dedupe=Deduplication("field", "id"))
    for amount in (-1, 5, 6):
        run(agent, log, store, clock, {"amount": amount, "id": "a"})
    assert ([letter[2] for letter in letters(log)], [value["amount"] for value in values(log, "small")]) == (
        ["unrouted"],
        [5],
    )
