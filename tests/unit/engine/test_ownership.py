"""Who owns a partition, where it begins, and the one way back when anything goes wrong."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.values import Partition, TopicFacts
from sluicegate.streams.errors import PersistenceError, SystemNotReady
from sluicegate.streams.ownership.claiming import takeover
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import an_agent, dead, feed, hooked, shown, totals

PLACE = Partition("app", "sums", "in", 0)


def away(store: MemoryStore) -> list[bool]:
    """Make every call to the store fail while the list is not empty."""
    outage: list[bool] = []
    for name in ("claim", "commit", "restore", "pending", "clear_crash_mark", "read"):
        call = getattr(store, name)

        def checked(*args: Any, call: Any = call) -> Any:
            if outage:
                raise PersistenceError("the store is away")
            return call(*args)

        setattr(store, name, checked)
    return outage


def test_a_store_outage_backs_off_and_everything_counts_once_afterwards(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    outage, claims = away(store), []
    claim = store.claim
    store.claim = lambda *args: claims.append(clock.now) or claim(*args)  # type: ignore[method-assign,func-returns-value]
    driver = Driver(an_agent(count=2), store, log, clock).give(0).turns()
    feed(log, *[(f"k{n}", n) for n in range(10)])
    driver.turns(1)
    outage.append(True)
    feed(log, *[(f"k{n}", n) for n in range(10)])
    for _ in range(200):
        driver.later(0.1).turns(1)
    assert shown(driver)[0] == ["waiting to claim in/0: the store is away"]
    assert 8 < len(claims) < 30
    outage.clear()
    driver.later(3).turns()
    assert shown(driver)[0] == []
    assert sorted(totals(log)) == sorted((f"k{n}", "count", 2, 2 * n) for n in range(10))


def test_kafka_that_does_not_answer_delays_a_claim_and_takes_nothing_from_the_owner(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    first = Driver(an_agent(), store, log, clock).give(0).turns()
    second = Driver(an_agent(), store, log, clock)
    facts = second.input.facts

    def unreachable(topic: str, number: int) -> Any:
        raise SystemNotReady("no broker")

    second.input.facts = unreachable  # type: ignore[method-assign]
    second.give(0).turns()
    assert shown(second)[0] == ["waiting to claim in/0: no broker"]
    feed(log, *[("a", 1)] * 3)
    first.turns()
    assert len(totals(log)) == 1
    second.input.facts = facts  # type: ignore[method-assign]
    second.later(3).turns()
    assert shown(second)[0] == []


def effects(log: Log, store: MemoryStore, clock: ManualClock) -> list[tuple[str, str, int, Any]]:
    """Records are in hand when the store's reply is lost; then a re-claim."""
    losing = [True]

    def lose(claim: Any, changes: Any) -> None:
        if changes.entries and losing:
            losing.clear()
            raise PersistenceError("lost")

    driver = Driver(an_agent(count=4), hooked(store, before=lose), log, clock).give(0).turns()
    feed(log, *[("a", n) for n in range(300)])
    for _ in range(30):
        driver.later(0.5).turns(2)
    return totals(log)


def test_records_in_hand_from_before_a_new_claim_are_void_and_none_is_skipped(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    assert [count for _, _, count, _ in effects(log, store, clock)] == [4] * 75
    assert sum(total for *_, total in totals(log)) == sum(range(300))


def test_a_record_that_was_polled_before_a_claim_is_not_taken_under_it(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The reply of a commit is lost. In the turn that claims the partition again, the poll returns a record that was
    fetched before the partition was paused. Then another record is in the log at its offset, as after the election of
    an unclean leader."""
    losing = [True]

    def lose(claim: Any, changes: Any) -> None:
        if changes.entries and losing:
            losing.clear()
            raise PersistenceError("lost")

    driver = Driver(an_agent(count=1), hooked(store, after=lose), log, clock).give(0).turns()
    feed(log, ("a", 1))
    driver.turns(2)
    assert shown(driver)[0] != []
    feed(log, ("a", 2))
    claim = store.claim

    def replaced(*args: Any) -> Any:
        log.topics["in"][0][1] = replace(log.topics["in"][0][1], v=b'{"amount": 3}')
        return claim(*args)

    store.claim = replaced  # type: ignore[method-assign]
    driver.input.paused.clear()
    driver.later(60).turns()
    assert [total for *_, total in totals(log)] == [1, 3]


def test_records_below_the_offset_are_not_taken_again(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = Driver(an_agent(count=9), store, log, clock).give(0).turns()
    feed(log, *[("a", 1)] * 4)
    driver.turns(3)
    owner = driver.worker._owners["in", 0]
    feed(log, ("a", 1))
    owner.accept(log.topics["in"][0][:3], clock.monotonic())
    assert (owner.intake.pending, owner.intake.offset) == (0, 4)
    owner.accept(log.topics["in"][0][2:], clock.monotonic())
    assert (owner.intake.pending, owner.intake.offset) == (1, 5)


def test_without_the_seek_of_a_new_claim_records_are_lost(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    with without("seek"):
        effects(log, store, clock)
    assert sum(total for *_, total in totals(log)) != sum(range(300))


def test_offsets_without_records_are_no_gap(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, *[("a", n) for n in range(9)])
    log.topics["in"][0] = [message for message in log.topics["in"][0] if message.o not in (0, 1, 4, 5)]
    driver = Driver(an_agent(count=5), store, log, clock).give(0).turns(8)
    assert shown(driver)[0] == []
    assert totals(log) == [("a", "count", 5, 2 + 3 + 6 + 7 + 8)]


def test_a_partition_taken_away_while_it_restores_is_dropped_quietly(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("a", 1), ("a", 1))
    Driver(an_agent(), store, log, clock).give(0).turns()
    steps: list[Any] = []
    restore, driver = store.restore, Driver(an_agent(), store, log, clock)

    def slow(claim: Any) -> Any:
        clock.now += 1  # longer than a slice of taking over
        steps.append(claim)
        return restore(claim)

    store.restore = slow  # type: ignore[method-assign]
    driver.give(0).turns(1)
    assert steps
    assert shown(driver)[1] == {("in", 0): ("restoring", None)}
    driver.input.take(("in", 0))
    driver.turns()
    assert shown(driver) == ([], {})
    feed(log, ("a", 1))
    driver.give(0).turns()
    assert totals(log) == [("a", "count", 3, 3)]


def test_a_partition_that_moves_between_workers_counts_each_record_once(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    workers = [Driver(an_agent(count=7), store, log, clock) for _ in range(3)]
    for n in range(140):
        feed(log, (f"k{n % 2}", 1))
        worker = workers[n // 5 % 3]
        if n % 5 == 0:
            workers[(n // 5 - 1) % 3].input.take(("in", 0))
            worker.give(0)
        worker.later(0.01).turns(2)
    assert [(r[1], r[2]) for r in totals(log)] == [("count", 7)] * 20


@pytest.mark.parametrize(("start", "seen"), [("earliest", 4), ("latest", 2), (1_700_000_050.0, 3)])
def test_a_new_agent_begins_where_its_file_says(
    log: Log, store: MemoryStore, clock: ManualClock, start: Any, seen: int
) -> None:
    for at in (1_700_000_000_000, 1_700_000_060_000):
        record = log.append("in", 0, b"a", b'{"amount":1}')
        log.topics["in"][0][-1] = type(record)("in", 0, record.o, b"a", b'{"amount":1}', None, at)
    driver = Driver(an_agent(count=None, since_first=5.0, start=start), store, log, clock).give(0).turns()
    feed(log, ("a", 1), ("a", 1))
    driver.turns().later(6).turns()
    assert [count for _, _, count, _ in totals(log)] == [seen]


def test_a_start_is_decided_once_whatever_comes_before_the_first_record_was_read(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    Driver(an_agent(count=1, start="latest"), store, log, clock).give(0).turns()
    feed(log, ("a", 1))
    Driver(an_agent(count=1, start="latest"), store, log, clock).give(0).turns()
    assert len(totals(log)) == 1


def test_a_partition_added_later_begins_at_its_start(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    agent = an_agent(count=1, start="latest")
    driver = Driver(agent, store, log, clock).give(0).turns()
    log.topics["in"].append([])
    feed(log, ("new", 1), number=1)
    driver.give(1).turns()
    assert totals(log) == [("new", "count", 1, 1)]


def test_a_partition_added_later_begins_at_its_start_although_the_others_know_of_it_already(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(count=1, start="latest")
    Driver(agent, store, log, clock).give(0).turns()
    log.topics["in"] += [[], []]
    feed(log, ("a", 1))
    Driver(agent, store, log, clock).give(0, 1).turns()
    feed(log, ("new", 1), number=2)
    Driver(agent, store, log, clock).give(2).turns()
    assert sorted(totals(log)) == [("a", "count", 1, 1), ("new", "count", 1, 1)]


def test_an_output_topic_that_is_not_there_is_waited_for_and_nothing_is_lost(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    del log.topics["out"]
    feed(log, *[("a", 1)] * 3)
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    assert shown(driver)[0] == ["waiting to claim in/0: no topic out"]
    log.create("out")
    driver.later(3).turns()
    assert totals(log) == [("a", "count", 3, 3)]


def test_several_topics_keep_their_groups_apart(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.create("two")
    for topic in ("in", "two"):
        feed(log, ("a", 1), ("a", 2), topic=topic)
    driver = Driver(an_agent(topics=("in", "two")), store, log, clock).give(0).give(0, topic="two").turns()
    feed(log, ("a", 3))
    feed(log, ("a", 30), topic="two")
    driver.turns()
    assert totals(log) == [("a", "count", 3, 6), ("a", "count", 3, 33)]


def test_bad_records_between_good_ones_move_the_offset_and_the_rest_counts(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    for n in range(30):
        log.append("in", 0, b"a", json.dumps({"amount": 1}).encode() if n % 3 else b"nope")
    Driver(an_agent(count=5), store, log, clock).give(0).turns()
    assert len(dead(log)) == 10
    assert [count for _, _, count, _ in totals(log)] == [5] * 4
    assert store._rows[PLACE].claim.offset == 30


def test_a_restore_goes_on_between_polls(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(takeover, "SLICE", 2)
    driver = Driver(an_agent(), store, log, clock).give(0)
    for n in range(20):
        feed(log, (f"k{n}", 1))
        driver.turns(2)
    restore = store.restore

    def slow(claim: Any) -> Any:
        for entry in restore(claim):
            clock.now += 0.11
            yield entry

    store.restore = slow  # type: ignore[method-assign]
    second, polls = Driver(an_agent(), store, log, clock).give(0), 0
    while len(second.worker._owners) == 0 and polls < 50:
        second.turns(1)
        polls += 1
    assert 3 < polls < 50
    assert len(second.worker._owners["in", 0].groups.newest.states) == 20


def test_a_broker_that_answers_nothing_holds_up_one_poll_for_one_partition(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """Each question waits 5 s for its answer: four partitions in a row would be 20 s without a poll, and without a look
    at SIGTERM."""
    driver = Driver(an_agent(), store, log, clock).give(0, 1, 2, 3)
    asked: list[int] = []

    def silent(topic: str, number: int) -> TopicFacts:
        asked.append(number)
        driver.later(5.0)
        raise SystemNotReady("no answer within 5 s")

    driver.input.facts = silent  # type: ignore[method-assign]
    for turn in range(4):
        driver.turns(1)
        assert len(asked) == turn + 1
    assert sorted(asked) == [0, 1, 2, 3]
