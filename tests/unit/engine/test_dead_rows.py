"""Dead rows go into their outbox again as new rows with the old id: once, whatever crashes."""

import json

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import Fenced
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead.dead_rows import dead_rows, requeue
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import an_agent, feed, hooked, totals

PLACE = Partition("app", "sums", "in", 0)


def person(token: str = "by hand") -> Person:
    return Person("me@here", "fixed", token)


def given(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """Three results, of which the broker refuses those of `bad` and `worse`."""
    driver = Driver(an_agent(count=1), store, log, clock).give(0)
    driver.producer.fate = lambda row: "delivered" if row.key == b"good" else "rejected"
    feed(log, ("bad", 1), ("good", 2), ("worse", 3))
    driver.turns(8).later(5).turns(4)
    assert [(row.row.key, row.reason) for row in dead_rows(store, "app", ["sums"], 10)] == [
        (b"bad", "rejected: by the test"),
        (b"worse", "rejected: by the test"),
    ]
    driver.producer.fate = lambda row: "delivered"
    return driver


def settled(driver: Driver) -> None:
    """It was fenced, and has claimed again."""
    driver.later(10).turns(4).later(5).turns(8)


def test_a_dead_row_is_sent_with_its_old_id_under_a_new_number(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = given(log, store, clock)
    [bad, worse] = dead_rows(store, "app", ["sums"], 10)
    assert requeue(store, PLACE, lambda row: row.key == b"bad", person()) == 1
    assert [row.row.key for row in dead_rows(store, "app", ["sums"], 10)] == [b"worse"]
    settled(driver)
    assert totals(log) == [("good", "count", 1, 2), ("bad", "count", 1, 1)]
    [_, sent] = log.topics["out"][0]
    assert header(sent, "sluicegate-id") == bad.row.id
    assert header(sent, "sluicegate-shard") == "app/sums/in/0>out#by hand"
    assert int(header(sent, "sluicegate-seq") or 0) > worse.row.number
    assert list(dict(bad.row.headers)) == list(dict(sent.h or ()))


def test_it_is_requeued_once_however_often_it_is_asked_for(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = given(log, store, clock)
    assert [requeue(store, PLACE, lambda row: True, person(f"hand {n}")) for n in range(3)] == [2, 0, 0]
    settled(driver)
    assert sorted(json.loads(m.v or b"")["key"] for m in log.topics["out"][0]) == ["bad", "good", "worse"]


def test_twin_a_dead_row_that_stays_in_the_list_is_sent_twice(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = given(log, store, clock)
    with without("revived"):
        assert [requeue(store, PLACE, lambda row: True, person(f"hand {n}")) for n in range(2)] == [2, 2]
    settled(driver)
    assert len(log.topics["out"][0]) == 5


def test_a_commit_that_fails_changes_nothing_and_one_whose_reply_is_lost_is_not_done_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = given(log, store, clock)
    commit = store.commit

    def lost(*_: object) -> None:
        raise KeyboardInterrupt

    for hooks in ({"before": lost}, {"after": lost}):
        hooked(store, **hooks)
        with pytest.raises(KeyboardInterrupt):
            requeue(store, PLACE, lambda row: True, person())
        store.commit = commit  # type: ignore[method-assign]
        rest = len(list(dead_rows(store, "app", ["sums"], 10)))
        assert rest == (2 if "before" in hooks else 0)
    settled(driver)
    assert len(log.topics["out"][0]) == 3


def test_somebody_who_claims_in_between_wins(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    given(log, store, clock)

    def claims(row: object) -> bool:
        store.claim(PLACE, "other", "member")
        return True

    with pytest.raises(Fenced):
        requeue(store, PLACE, claims, person())
    assert len(list(dead_rows(store, "app", ["sums"], 10))) == 2
