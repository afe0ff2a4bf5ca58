"""Groups with messages that their handler cannot use: named by it or found one by one, dead letters each, the rest is
handled once."""

import json
from contextlib import suppress
from typing import Any

import pytest
from jsonschema import validate

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Destination, Handler, Reducer
from sluicegate.streams.contracts.ids import fire_ids
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.handlers import sealed
from sluicegate.streams.handlers.members import GroupMembers
from tests.unit.engine import handlers
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import dead, feed
from tests.unit.schemas.test_documents import LETTER

Patch = pytest.MonkeyPatch
HERE = "tests.unit.engine.handlers"
PLACE = Partition("app", "a", "in", 0)
COMPUTE = (Reducer("total", "sum", "amount"), Reducer("rows", "collect"), Reducer("kinds", "distinct", "amount"))
RULE = Aggregation(count=4, compute=COMPUTE)
KINDS: dict[str, dict[str, Any]] = {"inline": {}, "session": {"session": True}, "slow": {"concurrency": 2}}
QUICK = {"backoff_first": 0.1}

how = pytest.mark.parametrize("how", KINDS.values(), ids=KINDS)


def an_agent(function: str = "choosy", rule: Aggregation | None = RULE, **how: Any) -> Agent:
    handler = Handler((f"{HERE}:{function}",), **QUICK | how)
    return Agent("a", ("in",), rule, Destination("out"), "dead", handler=handler)


def turned(driver: Driver, times: int = 20) -> Driver:
    for _ in range(times):
        driver.turns(2).later(0.5)
    return driver


def outputs(log: Log) -> list[Any]:
    return [json.loads(message.v or b"null") for message in distinct(log, "out")]


def letters(log: Log) -> list[tuple[bytes | None, str | None, str | None]]:
    """Value, index in the group and why, of each dead letter."""
    return [(m.v, header(m, "sluicegate-dead-item"), header(m, "sluicegate-dead-error")) for m in distinct(log, "dead")]


@how
def test_the_named_ones_are_dead_letters_byte_for_byte_and_the_rest_is_handled_at_once(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.bad |= {2: "no such account", 4: "closed"}
    for value in (b'{"amount": 1}', b'{"amount":  2, "x": 1.0}', b'{"amount": 3}', b'{ "amount": 4 }'):
        log.append("in", 0, b"k", value)
    Driver(an_agent(attempts=1, **how), store, log, clock).give(0).turns(10)
    assert handlers.calls == [[1, 2, 3, 4], [1, 3]]
    assert outputs(log) == [{"sum": 4, "of": [1, 3]}]
    assert letters(log) == [(b'{"amount":  2, "x": 1.0}', "1", "no such account"), (b'{ "amount": 4 }', "3", "closed")]
    [result], [letter, _] = distinct(log, "out"), distinct(log, "dead")
    fire = fire_ids(PLACE, log.ids["in"])(0)
    assert header(result, "sluicegate-fire") == header(letter, "sluicegate-fire") == fire
    assert (letter.k, header(letter, "sluicegate-dead-reason"), header(letter, "sluicegate-dead-stage")) == (
        b"k",
        "bad-item",
        "handler",
    )
    assert store.values.get("sum", 0) == (4 if how.get("session") else 0)
    validate(
        {name: value.decode() for name, value in letter.h or () if name.startswith("sluicegate-") and value}, LETTER
    )


@how
def test_a_group_of_which_nothing_is_left_ends_without_another_call(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.bad |= dict.fromkeys((1, 2, 3, 4), "all of them")
    feed(log, *[("k", n) for n in (1, 2, 3, 4)])
    Driver(an_agent(**how), store, log, clock).give(0).turns(10)
    assert (handlers.calls, outputs(log), len(letters(log))) == ([[1, 2, 3, 4]], [], 4)
    assert store.values.get("sum", 0) == 0


@how
def test_one_that_is_named_later_has_the_index_of_the_group_as_it_was_completed(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    documents = iter([{2: "two"}, {4: "four"}, {}])
    monkeypatch.setattr(handlers, "bad", Changing(documents))
    feed(log, *[("k", n) for n in (1, 2, 3, 4)])
    turned(Driver(an_agent(**how), store, log, clock).give(0), 4)
    assert [(index, why) for _, index, why in letters(log)] == [("1", "two"), ("3", "four")]
    assert outputs(log) == [{"sum": 4, "of": [1, 3]}]


class Changing(dict[int, str]):
    """At each call of the handler other messages are bad."""

    def __init__(self, answers: Any) -> None:
        self._said, self._seen = answers, 4
        super().__init__()

    def __contains__(self, amount: object) -> bool:
        if amount == 1:
            self.clear()
            self.update(next(self._said))
        return super().__contains__(amount)


@how
def test_reducers_are_computed_anew_without_what_is_bad(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(handlers, "choosy", lambda batch: seen.append(batch.value) or handlers.choosy_rows(batch))
    handlers.bad[5] = "five"
    feed(log, *[("k", n) for n in (5, 2, 2, 7)])
    Driver(an_agent(**how), store, log, clock).give(0).turns(10)
    assert [(v["count"], v["total"], v["kinds"]) for v in seen] == [(4, 16, 3), (3, 11, 2)]


@how
def test_indexes_that_the_group_does_not_have_are_a_failure(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(handlers, "choosy", lambda batch: handlers.refuses({9: "none such"}))
    feed(log, *[("k", n) for n in (1, 2, 3, 4)])
    turned(Driver(an_agent(attempts=2, **how), store, log, clock).give(0))
    assert dead(log) == [("0", "handler-failed")]


@how
def test_after_so_many_failures_each_is_tried_alone_and_nothing_of_that_stays(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.bad[3] = "bad"
    feed(log, *[("k", n) for n in (1, 2, 3, 4)])
    turned(Driver(an_agent("blunt", isolate_after=2, attempts=3, **how), store, log, clock).give(0))
    whole = [1, 2, 3, 4]
    assert handlers.calls == [whole, whole, [1], [2], [3], [4], [1, 2, 4]]
    assert outputs(log) == [{"sum": 7, "of": [1, 2, 4]}]
    text = "the handler raised ValueError: one of them (tests/unit/engine/handlers.py:203 in blunt)"
    assert letters(log) == [(b'{"amount": 3}', "2", text)]
    assert store.values.get("sum", 0) == (7 if how.get("session") else 0)


@how
def test_when_all_fail_alone_it_is_no_bad_message_and_the_group_fails_as_a_whole(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.bad |= dict.fromkeys((1, 2, 3, 4), "bad")
    feed(log, *[("k", n) for n in (1, 2, 3, 4)])
    turned(Driver(an_agent("blunt", isolate_after=1, attempts=2, **how), store, log, clock).give(0))
    assert (dead(log), outputs(log)) == ([("0", "handler-failed")], [])


@how
def test_without_isolation_one_bad_message_fails_its_group(
    how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.bad[3] = "bad"
    feed(log, *[("k", n) for n in (1, 2, 3, 4)])
    turned(Driver(an_agent("blunt", attempts=3, **how), store, log, clock).give(0))
    assert (dead(log), outputs(log)) == ([("0", "handler-failed")], [])


def after_a_death(store: MemoryStore, log: Log, clock: ManualClock, point: str, nth: int, how: dict[str, Any]) -> None:
    """A process that dies at this place, and one that goes on and finds another message bad, too."""
    handlers.bad[2] = "two"
    failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{point}=raise@{nth}"})
    feed(log, *[("k", n) for n in range(1, 9)])
    first = Driver(an_agent(**how), store, log, clock).give(0)
    with suppress(failpoints.Failpoint):
        turned(first, 10)
    failpoints.arm({})
    turned(Driver(an_agent(**how), store, log, clock).give(0), 20)


POINTS = ("after-decode", "before-commit", "commit-sent", "after-commit", "produced-not-acked", "acked-not-recorded")
SEALS = ("sealed", "attempt-marked", "handler-done", "complete-sent")


@how
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("point", [*POINTS, *SEALS])
def test_each_is_a_dead_letter_or_handled_once_after_a_death_anywhere(
    point: str, nth: int, how: dict[str, Any], log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    after_a_death(store, log, clock, point, nth, how)
    assert letters(log) == [(b'{"amount": 2}', "1", "two")]
    assert outputs(log) == [{"sum": 8, "of": [1, 3, 4]}, {"sum": 26, "of": [5, 6, 7, 8]}]
    assert store.values.get("sum", 0) == (34 if how.get("session") else 0)


def test_without_the_removal_in_the_log_a_message_is_both_dead_and_handled(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    """The dead letter was committed; the process that goes on finds the whole group again, and nothing wrong with
    it."""

    def forgetful(self: sealed.Sealed, sealed_item: sealed.SealedItem, rest: Any) -> None:
        sealed_item.item, sealed_item.state, sealed_item.ready_at = rest, "waiting", 1e12

    monkeypatch.setattr(sealed.Sealed, "_reduce", forgetful)
    handlers.bad[2] = "two"
    feed(log, *[("k", n) for n in range(1, 5)])
    Driver(an_agent(concurrency=2), store, log, clock).give(0).turns(10)
    handlers.bad.clear()
    turned(Driver(an_agent(concurrency=2), store, log, clock).give(0), 5)
    assert len(letters(log)) == 1
    assert outputs(log) == [{"sum": 10, "of": [1, 2, 3, 4]}]


def test_with_the_removal_in_the_log_it_is_not(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    handlers.bad[2] = "two"
    reduce = sealed.Sealed._reduce

    def waits(self: sealed.Sealed, sealed_item: sealed.SealedItem, rest: Any) -> None:
        reduce(self, sealed_item, rest)
        sealed_item.ready_at = 1e12

    monkeypatch.setattr(sealed.Sealed, "_reduce", waits)
    feed(log, *[("k", n) for n in range(1, 5)])
    Driver(an_agent(concurrency=2), store, log, clock).give(0).turns(10)
    handlers.bad.clear()
    turned(Driver(an_agent(concurrency=2), store, log, clock).give(0), 5)
    assert len(letters(log)) == 1
    assert outputs(log) == [{"sum": 8, "of": [1, 3, 4]}]


def test_a_session_is_rolled_back_before_the_rest_is_handled(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Patch
) -> None:
    """Twin: without the isolation the bad message's writes stay with the others'."""
    monkeypatch.setattr(GroupMembers, "without", lambda self, fire, bad: ([], fire))
    monkeypatch.setattr(handlers, "bad", Changing(iter([{2: "two"}, {}])))
    feed(log, *[("k", n) for n in (1, 2, 3, 4)])
    Driver(an_agent(session=True), store, log, clock).give(0).turns(10)
    assert (store.values["sum"], letters(log)) == (10, [])


def test_rows_of_together_are_named_as_well_and_only_their_messages_go(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    handlers.bad |= {3: "three", 7: "seven"}
    feed(log, *[("k", n) for n in range(10)])
    Driver(an_agent("book_choosy", None, session=True, attempts=1), store, log, clock).give(0).turns(10)
    assert [len(rows) for rows in handlers.added] == [10, 8]
    assert dead(log) == [("3", "bad-item"), ("7", "bad-item")]
    assert (store.values["sum"], sum(outputs(log))) == (35, 35)
