"""The engine turned by hand: what a worker does between its consumer, its store and its producer."""

import json
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.errors import PersistenceError
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory


def an_agent(**aggregation: Any) -> Agent:
    compute = aggregation.pop(
        "compute", (Reducer("n", "count"), Reducer("total", "sum", "amount"), Reducer("worst", "max", "amount"))
    )
    receive = aggregation.pop("receive", ())
    wanted = {"count": 3, "since_first": 30.0, "compute": compute} | aggregation
    return Agent("sums", ("in",), Aggregation(**wanted), Destination("out"), "dead", receive=receive)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log() -> Log:
    log = Log()
    for topic in ("in", "out", "dead"):
        log.create(topic, 1)
    return log


def feed(log: Log, *pairs: tuple[str, Any], topic: str = "in", number: int = 0) -> None:
    for key, amount in pairs:
        log.append(topic, number, key.encode(), json.dumps({"amount": amount}).encode())


def results(log: Log, topic: str = "out") -> list[dict[str, Any]]:
    return [json.loads(message.v or b"null") for message in distinct(log, topic)]


def test_a_group_fires_at_its_count_with_all_that_was_computed(log: Log, clock: ManualClock) -> None:
    feed(log, ("a", 1), ("b", 9), ("a", 2), ("a", 4))
    Driver(an_agent(), memory(clock), log, clock).give(0).turns()
    (result,) = results(log)
    assert {k: result[k] for k in ("key", "count", "reason", "n", "total", "worst")} == {
        "key": "a",
        "count": 3,
        "reason": "count",
        "n": 3,
        "total": 7,
        "worst": 4,
    }
    (message,) = distinct(log, "out")
    assert header(message, "sluicegate-first") == "in/0/0"
    assert header(message, "sluicegate-last") == "in/0/3"
    assert header(message, "sluicegate-shard") == f"app/sums/in/0>out#{lineage_of(message)}"


def lineage_of(message: Any) -> str:
    return (header(message, "sluicegate-shard") or "").rpartition("#")[2]


def test_a_group_fires_at_its_deadline_although_no_record_follows(log: Log, clock: ManualClock) -> None:
    feed(log, ("a", 1))
    driver = Driver(an_agent(), memory(clock), log, clock).give(0).turns()
    driver.later(29.9).turns()
    assert results(log) == []
    driver.later(0.2).turns()
    assert [(r["reason"], r["count"]) for r in results(log)] == [("timeout", 1)]


def test_a_restarted_worker_goes_on_with_the_groups_and_deadlines_of_the_dead_one(log: Log, clock: ManualClock) -> None:
    store = memory(clock)
    feed(log, ("a", 1), ("a", 2))
    Driver(an_agent(), store, log, clock).give(0).turns()
    feed(log, ("a", 3), ("b", 5))
    second = Driver(an_agent(), store, log, clock).give(0).turns()
    assert [(r["key"], r["total"]) for r in results(log)] == [("a", 6)]
    clock.now += 31
    second.turns()
    assert [(r["key"], r["reason"]) for r in results(log)] == [("a", "count"), ("b", "timeout")]


def test_a_fenced_worker_changes_nothing_and_claims_again_while_it_is_assigned(log: Log, clock: ManualClock) -> None:
    store = memory(clock)
    first = Driver(an_agent(), store, log, clock).give(0).turns()
    feed(log, ("a", 1), ("a", 2))
    first.turns()
    second = Driver(an_agent(), store, log, clock).give(0).turns()
    feed(log, ("a", 3))
    first.turns()
    clock.now += 5
    for _ in range(10):
        clock.now += 5
        first.turns(2)
        second.turns(2)
    assert [(r["key"], r["total"]) for r in results(log)] == [("a", 6)]


def test_a_commit_whose_reply_is_lost_takes_effect_once(log: Log, clock: ManualClock) -> None:
    store = memory(clock)
    commit, lose = store.commit, [True]

    def losing(claim: Any, changes: Any) -> Any:
        after = commit(claim, changes)
        if changes.outbox and lose:
            lose.clear()
            raise PersistenceError("lost")
        return after

    store.commit = losing  # type: ignore[method-assign]
    feed(log, *[("a", n) for n in range(7)])
    driver = Driver(an_agent(), store, log, clock).give(0)
    for _ in range(10):
        driver.later(1).turns(3)
    assert not lose
    assert [r["total"] for r in results(log) if r["reason"] == "count"] == [3, 12]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "undecodable"),
        (None, "null-value"),
        (b"{}", "missing-field"),
        (b'{"amount":"x"}', "wrong-type"),
        (b'{"amount":true}', "wrong-type"),
        (b'{"amount":1e999}', "undecodable"),
        (b"[1]", "wrong-type"),
    ],
)
def test_a_record_that_cannot_be_taken_is_a_dead_letter_byte_for_byte(
    log: Log, clock: ManualClock, value: bytes | None, reason: str
) -> None:
    log.append("in", 0, b"k", value, [("mine", b"\xff"), ("sluicegate-id", b"x")])
    feed(log, ("a", 1), ("a", 1), ("a", 1))
    Driver(an_agent(), memory(clock), log, clock).give(0).turns()
    (dead,) = distinct(log, "dead")
    assert (dead.k, dead.v) == (b"k", value)
    assert header(dead, "sluicegate-dead-reason") == reason
    assert header(dead, "sluicegate-dead-offset") == "0"
    assert ("mine", b"\xff") in (dead.h or [])
    assert ("dead-sluicegate-id", b"x") in (dead.h or [])
    assert len(results(log)) == 1


def test_a_record_without_a_key_is_a_dead_letter(log: Log, clock: ManualClock) -> None:
    log.append("in", 0, None, b'{"amount":1}')
    Driver(an_agent(), memory(clock), log, clock).give(0).turns()
    assert [header(m, "sluicegate-dead-reason") for m in distinct(log, "dead")] == ["no-key"]
