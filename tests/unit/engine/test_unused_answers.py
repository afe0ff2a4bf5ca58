"""What a handler returns goes nowhere, and so does what it sends after its call."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.handlers import Message
from sluicegate.streams.handlers.values import CallEnded
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import dead, feed, shown

HERE = "tests.unit.engine.test_unused_answers"
seen: list[Any] = []


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    seen.clear()
    yield
    seen.clear()


def answers(value: Any, send: Any) -> Any:
    seen.append(value["amount"])
    send(value)
    return {"n": 1} if value["amount"] == 2 else None


def books(value: Any, session: Any, send: Any) -> Any:
    seen.append(value["amount"])
    session.values["sum"] = session.values.get("sum", 0) + value["amount"]
    return send(value) or ({"n": 1} if value["amount"] == 2 else None)


def adds(rows: list[int], session: Any) -> Any:
    session.values["sum"] = session.values.get("sum", 0) + sum(rows)
    return rows if 2 in rows else None


def together_answers(value: Any, together: Any) -> None:
    together(adds, value["amount"])


def sends_later(message: Message, send: Any) -> None:
    seen.append(send)


def an_agent(function: str, rule: Aggregation | None = None, **how: Any) -> Agent:
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=Handler((f"{HERE}:{function}",), **how))


@pytest.mark.parametrize("how", [{}, {"session": True}, {"concurrency": 1}])
def test_a_call_that_returned_a_value_is_not_repeated(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    function = "books" if how.get("session") else "answers"
    driver = Driver(an_agent(function, attempts=5, **how), store, log, clock).give(0).turns(4)
    for _ in range(3):
        driver.later(120).turns(4)
    assert dead(log) == [("1", "handler-failed")]
    [letter] = distinct(log, "dead")
    text = header(letter, "sluicegate-dead-error") or ""
    assert text == (
        "the handler raised UnusedAnswer: returned a value of type dict, and what it returns goes nowhere; "
        "call send(VALUE)"
    )
    assert header(letter, "sluicegate-dead-attempts") == "1"
    if not how.get("session"):
        assert seen.count(2) == 1


def test_a_group_whose_handler_returned_a_value_is_not_taken_apart(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    rule = Aggregation(count=2, compute=(Reducer("rows", "collect"), Reducer("amount", "sum", "amount")))
    feed(log, ("k", 1), ("k", 1))
    agent = an_agent("answers", rule, attempts=5, isolate_after=1)
    Driver(agent, store, log, clock).give(0).turns(4)
    assert (seen, dead(log)) == ([2], [("0", "handler-failed")])


def test_a_value_of_a_function_of_together_is_an_error_of_the_messages_that_it_had(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    driver = Driver(an_agent("together_answers", attempts=5, session=True), store, log, clock).give(0).turns(4)
    for _ in range(3):
        driver.later(120).turns(4)
    assert dead(log) == [("1", "handler-failed")]
    assert store.values["sum"] == 4


def test_stop_halts_at_the_first_value(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("k", 2))
    driver = Driver(an_agent("answers", attempts=5, then="stop"), store, log, clock).give(0).turns(4)
    assert shown(driver)[1]["in", 0] == ("halted", "handler-stopped")
    assert seen == [2]


def test_a_send_after_the_call_raises_and_is_logged(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("k", 1))
    Driver(an_agent("sends_later"), store, log, clock).give(0).turns(4)
    raised: list[BaseException] = []

    def late() -> None:
        try:
            seen[0]({"n": 1}, topic="out")
        except CallEnded as error:
            raised.append(error)

    with capture_logs() as lines:
        thread = threading.Thread(target=late)
        thread.start()
        thread.join()
    assert "send() came after the handler had returned, so it has no effect; join the thread" in str(raised[0])
    [line] = [line for line in lines if line["event"] == "handler.call_ended"]
    assert (line["call"], line["where"], line["log_level"]) == ("send", "in/0/0", "error")
