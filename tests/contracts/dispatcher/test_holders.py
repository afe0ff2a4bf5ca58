"""Several dispatchers: who has a lane, how it is kept, lost, taken over and given back."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.contracts.lanes import lane_of
from sluicegate.streams.errors import ConcurrencyError, PersistenceError
from sluicegate.streams.testing.log import Log
from tests.contracts.dispatcher.given import OUTBOX, Turned, add_numbers, lanes, message, numbered, received, values
from tests.mutation.twins import without
from tests.waiting import wait_until

Handle = Callable[[], Any]
LANE = lane_of(message(1), 2)
BRIEF = replace(OUTBOX, lease=1.2)  # by the clock of the store: a busy machine takes up to a second for a call


def test_144_a_lane_is_renewed_before_a_third_of_its_lease_is_gone(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add_numbers(store, *range(1, 4))
    one = Turned(store)
    one.producer.hold = True
    claim, claims = store.outbox.claim, list[float]()

    def noted(*args: Any) -> Any:
        claims.extend([one.clock.now] * (args[0] == LANE))
        return claim(*args)

    one.later()
    monkeypatch.setattr(store.outbox, "claim", noted)
    began = one.clock.now
    for _ in range(30):
        one.later(1.0)
    assert 2 <= len(claims) <= 4
    assert claims[0] - began <= OUTBOX.lease / 3
    assert one.count("lease_lost") == 0


def test_145_a_lane_that_is_anothers_is_stopped_counted_and_nothing_of_it_is_marked(store: Any, handle: Handle) -> None:
    add_numbers(store, *range(1, 6))
    log = Log(partitions=2)
    one, two = Turned(store, log, BRIEF), Turned(handle(), log, BRIEF)
    one.producer.room = 2
    one.producer.hold = True
    one.later(0.1)
    assert values(log) == numbered(2)
    two.sent_all()
    one.producer.hold = False
    one.producer.room = 100
    one.later(BRIEF.lease)
    assert (one.count("lease_lost"), values(log)[2:]) == (1, numbered(5))
    assert received(log) == numbered(5)


def test_a_lane_is_given_up_in_time_when_it_cannot_be_renewed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add_numbers(store, *range(1, 6))
    one = Turned(store)
    one.producer.room, one.producer.hold = 2, True
    one.later()

    def away(*_: Any) -> Any:
        raise PersistenceError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(store.outbox, "claim", away)
        for _ in range(32):
            one.later(1.0)
        one.producer.hold = False
        one.turns()
        assert (one.count("lease_lost"), values(one.log)) == (1, numbered(2))
    one.producer.room = 100
    assert received(one.sent_all().log) == numbered(5)


def test_marks_that_may_not_have_landed_are_made_again(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add_numbers(store, *range(1, 6))
    one = Turned(store)
    mark, lost = store.outbox.mark, list[int]()

    def unheard(batch: Any, outcomes: Any) -> None:
        mark(batch, outcomes)
        if not lost:
            lost.append(1)
            raise PersistenceError("the reply is lost")

    monkeypatch.setattr(store.outbox, "mark", unheard)
    assert values(one.sent_all().log) == numbered(5)
    one.until(lambda: not one.dispatcher.lanes.busy, "the second marks")
    add_numbers(store, *range(6, 9))
    assert values(one.sent_all().log) == numbered(8)
    assert lost


def test_one_holds_a_lane_at_a_time_and_another_takes_it_when_its_lease_is_over(store: Any, handle: Handle) -> None:
    add_numbers(store, *range(1, 4))
    log = Log(partitions=2)
    one, two = Turned(store, log, BRIEF), Turned(handle(), log, BRIEF)
    one.producer.fate = lambda row: "lost"  # as if it died
    one.later(0.1)
    two.later(0.1)
    assert values(log) == []
    assert values(two.sent_all().log) == numbered(3)


def test_189_what_a_dead_holder_had_sent_is_sent_again_and_received_once(store: Any, handle: Handle) -> None:
    add_numbers(store, *range(1, 8))
    log = Log(partitions=2)
    one, two = Turned(store, log, BRIEF), Turned(handle(), log, BRIEF)
    one.producer.fate = lambda row: "ack-lost" if row.number < 5 else "lost"
    one.later(0.1)
    assert values(log) == numbered(4)
    two.sent_all()
    assert values(log) == numbered(4) + numbered(7)
    assert received(log) == numbered(7)


def test_without_a_common_name_of_the_data_receivers_take_it_twice(store: Any, handle: Handle) -> None:
    with without("lane-source"):
        add_numbers(store, *range(1, 8))
        log = Log(partitions=2)
        one, two = Turned(store, log, BRIEF), Turned(handle(), log, BRIEF)
        one.producer.fate = lambda row: "ack-lost"
        one.later(0.1)
        two.sent_all()
        assert received(log) == numbered(7) * 2


def test_who_stops_marks_what_was_sent_and_gives_its_lanes_back_at_once(store: Any, handle: Handle) -> None:
    add_numbers(store, *range(1, 6))
    log = Log(partitions=2)
    one, two = Turned(store, log), Turned(handle(), log)
    one.producer.room, one.producer.hold = 2, True
    one.later()
    one.producer.hold = False
    assert one.stop() == 0
    assert store.outbox.count("dispatched") == 2
    two.later()
    assert values(log) == numbered(5)


def test_161_without_the_right_to_change_the_schema_nothing_is_made(store: Any) -> None:
    """`auto_migrate: false` is the run's: the dispatcher makes no tables, no topics and no lanes of its own accord."""
    before = store.migrate(dry_run=True), store.outbox.lanes()
    Turned(store).later()
    assert (store.migrate(dry_run=True), store.outbox.lanes()) == before


def test_the_number_of_lanes_follows_the_file_when_nothing_is_pending(store: Any) -> None:
    add_numbers(store, *range(1, 6))
    one = Turned(store, outbox=lanes(4))
    one.producer.hold = True
    one.later()
    assert store.outbox.lanes() == 2
    assert one.report().reasons == ["the outbox has 2 lanes, not 4, until nothing in it is pending"]
    assert one.report().ready
    one.producer.hold = False
    one.until(lambda: store.outbox.lanes() == 4, "four lanes")
    add_numbers(store, *range(6, 9))
    assert values(one.sent_all().log) == numbered(8)
    assert one.report().reasons == () or one.report().reasons == []


def test_a_holder_that_was_overtaken_while_it_marked_counts_it(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    add_numbers(store, 1)
    one = Turned(store)

    def anothers(*_: Any) -> None:
        raise ConcurrencyError("lane 9 of the outbox is another's now")

    with monkeypatch.context() as patched:
        patched.setattr(store.outbox, "mark", anothers)
        one.later()
    assert one.count("lease_lost") >= 1
    wait_until(lambda: store.outbox.count("pending") == 1)
