"""Handlers without a session: called for each message or group, their outputs sent with the commit, and what a failure
means."""

import json
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import a_log, dead, feed, shown

HERE = "tests.unit.engine.handlers"


def an_agent(*functions: str, rule: Aggregation | None = None, to: str | None = "out", **how: Any) -> Agent:
    handler = Handler(tuple(f"{HERE}:{name}" for name in functions), **how)
    return Agent("a", ("in",), rule, Destination(to) if to else None, "dead", handler=handler)


def outputs(log: Log, topic: str = "out") -> list[Any]:
    return [json.loads(message.v or b"null") for message in distinct(log, topic)]


def test_each_message_is_handed_over_once_and_in_order(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, *[(f"k{n % 3}", n) for n in range(1000)])
    Driver(an_agent("note", to=None), store, log, clock).give(0).turns(30)
    assert handlers.calls == list(range(1000))
    assert store.read(Partition("app", "a", "in", 0)).claim.offset == 1000  # type: ignore[union-attr]


def test_arguments_are_given_by_the_names_of_the_parameters(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.append("in", 0, b"k", b'{"amount": 1}', [("h", b"x")])
    Driver(an_agent("everything"), store, log, clock).give(0).turns()
    assert handlers.calls == [({"amount": 1}, "k", [("h", b"x")], True, 1, None)]


def test_a_typed_value_is_decoded_as_its_type_and_what_is_not_of_it_is_a_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1), ("k", "no number"), ("k", 3))
    Driver(an_agent("typed"), store, log, clock).give(0).turns()
    assert handlers.calls == [handlers.Order(1), handlers.Order(3)]
    assert dead(log) == [("1", "undecodable")]


def test_a_coroutine_is_waited_for(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("k", 1), ("k", 2))
    Driver(an_agent("slowly"), store, log, clock).give(0).turns()
    assert (handlers.calls, outputs(log)) == ([1, 2], [1, 2])
    assert {message.k for message in distinct(log, "out")} == {b"async"}


def test_outputs_have_ids_of_the_message_and_their_place(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("k", 1))
    Driver(an_agent("two_outputs"), store, log, clock).give(0).turns()
    [one], [other] = distinct(log, "out"), distinct(log, "dead")
    assert (one.k, one.v, header(one, "h"), header(one, "sluicegate-agent")) == (b"k1", b"raw", "x", "a")
    assert (other.k, other.v) == (b"k2", b'{"to":"other"}')
    assert (
        header(one, "sluicegate-fire")
        == header(other, "sluicegate-fire")
        == fire_ids(Partition("app", "a", "in", 0), log.ids["in"])(0)
    )
    assert header(one, "sluicegate-id") != header(other, "sluicegate-id")


def test_nothing_is_sent_that_a_failing_handler_sent_before_it_failed(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[2] = [ValueError("payload")] * 2
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    Driver(an_agent("forward", attempts=2), store, log, clock).give(0).turns(3).later(5).turns()
    assert outputs(log) == [{"doubled": 2}, {"doubled": 6}]
    assert dead(log) == [("1", "handler-failed")]
    [letter] = distinct(log, "dead")
    assert letter.v == b'{"amount": 2}'
    assert (header(letter, "sluicegate-dead-stage"), header(letter, "sluicegate-dead-attempts")) == ("handler", "2")
    assert header(letter, "sluicegate-dead-error") == "the handler raised ValueError: payload"
    assert header(letter, "sluicegate-dead-where") == "tests/unit/engine/handlers.py:34 in _maybe_fail"


def test_a_failure_is_tried_again_after_growing_pauses_and_no_other_is_called_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[2] = [ValueError()] * 3
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    driver = Driver(an_agent("forward", backoff_first=1.0, backoff_most=60.0), store, log, clock).give(0)
    seen = []
    for _ in range(100):
        driver.turns(1).later(0.1)
        seen.append(handlers.calls.count(2))
    assert handlers.calls.count(1) == handlers.calls.count(3) == 1
    first, second, third = (seen.index(n) for n in (2, 3, 4))
    assert first < 8  # the second one at once, apart from the others
    assert 14 <= second - first <= 17  # 2 s, of which the jitter left three quarters
    assert 29 <= third - second <= 32
    assert outputs(log) == [{"doubled": 2}, {"doubled": 4}, {"doubled": 6}]


def test_a_message_before_the_failing_one_does_not_wait_for_it(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.fails[2] = [ValueError()] * 4
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    Driver(an_agent("forward"), store, log, clock).give(0).turns(12)
    assert outputs(log) == [{"doubled": 2}]


def test_stop_halts_the_partition_and_only_it(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    handlers.fails[2] = [ValueError()] * 10
    feed(log, ("k", 1), ("k", 2), number=0)
    feed(log, ("k", 5), ("k", 6), number=1)
    driver = Driver(an_agent("forward", attempts=1, then="stop"), store, log, clock).give(0, 1).turns(20)
    assert sorted(map(str, outputs(log))) == sorted(map(str, [{"doubled": 10}, {"doubled": 12}]))
    assert shown(driver)[1]["in", 0] == ("halted", "handler-stopped")


def test_an_outage_counts_no_attempt_and_calls_nobody_meanwhile(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    handlers.fails[1] = [handlers.away() for _ in range(6)]
    feed(log, ("k", 1), number=0)
    driver = Driver(an_agent("forward", attempts=1), store, log, clock).give(0, 1).turns(3)
    feed(log, ("k", 9), number=1)
    driver.later(0.1).turns(3)
    assert handlers.calls == [1]
    for _ in range(150):
        driver.later(1).turns(2)
    assert sorted(out["doubled"] for out in outputs(log)) == [2, 18]
    assert dead(log) == []


def test_what_send_cannot_take_is_the_handlers_failure(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("k", 1))
    Driver(an_agent("forward", to=None, attempts=1), store, log, clock).give(0).turns()
    assert dead(log) == [("0", "handler-failed")]


def test_what_cannot_be_decoded_never_reaches_the_handler(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.append("in", 0, b"k", b"{nonsense")
    log.append("in", 0, b"k", None)
    log.append("in", 0, None, b'{"amount": 7}')
    Driver(an_agent("note"), store, log, clock).give(0).turns()
    assert handlers.calls == [7]
    assert dead(log) == [("0", "undecodable"), ("1", "null-value")]


def test_completed_groups_are_handed_over_instead_of_written(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rule = Aggregation(
        count=2, since_first=30.0, compute=(Reducer("total", "sum", "amount"), Reducer("rows", "collect"))
    )
    feed(log, ("k", 1), ("k", 2), ("j", 3))
    driver = Driver(an_agent("result", rule=rule), store, log, clock).give(0).turns()
    driver.later(31).turns()
    assert [(key, reason) for key, reason, _ in handlers.calls] == [("k", "count"), ("j", "timeout")]
    assert handlers.calls[0][2]["rows"] == [{"amount": 1}, {"amount": 2}]
    assert outputs(log) == [{"sum": 3}, {"sum": 3}]


def test_a_group_whose_handler_fails_for_good_is_a_dead_letter_with_its_document(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    rule = Aggregation(count=2, compute=(Reducer("total", "sum", "amount"),))
    handlers.fails[3] = [ValueError()] * 2
    feed(log, ("k", 1), ("k", 2), ("j", 3), ("j", 4))
    Driver(an_agent("result", rule=rule, attempts=2), store, log, clock).give(0).turns(3).later(2).turns()
    assert outputs(log) == [{"sum": 7}]
    [letter] = distinct(log, "dead")
    assert (json.loads(letter.v or b"")["total"], header(letter, "sluicegate-dead-reason")) == (3, "handler-failed")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("nothing.here:f", "there is no module nothing; "),
        (f"{HERE}:absent", r"handlers\.py has no absent; "),
        (f"{HERE}:HERE", "has no HERE; "),
        (f"{HERE}:calls", "is not a function"),
        (f"{HERE}:_maybe_fail", None),
        ("json:dump", "`fp` is unknown"),
        (f"{HERE}:result", "gets a message, not a batch"),
    ],
)
def test_what_cannot_be_called_is_refused_at_the_start(
    path: str, error: str | None, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = Agent("a", ("in",), None, None, "dead", handler=Handler((path,)))
    if error is None:
        Driver(agent, store, log, clock)
        return
    with pytest.raises(ConfigurationError, match=error):
        Driver(agent, store, log, clock)
