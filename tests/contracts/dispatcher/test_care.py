"""Retention, health, metrics, wake-up: what a dispatcher does besides sending."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate.streams.agent import Threshold
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.collector import exposition
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.observe.pages import pages
from sluicegate.streams.outbox import care
from tests.contracts.dispatcher.given import OUTBOX, Turned, add, add_numbers, message, numbered, values
from tests.waiting import wait_until


def test_143_the_cadence_of_looks_is_the_files(store: Any) -> None:
    one = Turned(store, outbox=replace(OUTBOX, poll=10.0))
    one.turns()
    add_numbers(store, 1)
    one.later(9.0)
    assert values(one.log) == []
    assert values(one.later(1.0).log) == [b"v1"]


def test_142_a_batch_has_a_bound(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.streams.outbox.batch_size.MOST", 3)
    add_numbers(store, *range(1, 8))
    one = Turned(store)
    one.producer.hold = True
    one.later()
    assert values(one.log) == numbered(3)


def test_154_what_was_sent_is_deleted_after_its_time_first_and_then_at_intervals(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care, "SWEPT_AT_ONCE", 3)
    add_numbers(store, *range(1, 9))
    Turned(store).sent_all().stop()
    brief = replace(OUTBOX, retention=0.05)
    one = Turned(store, outbox=brief)
    one.until(lambda: store.outbox.count("dispatched") == 0, "the sweep at the start")
    assert one.count("retention_deleted") == 8
    add_numbers(store, *range(11, 14))
    one.sent_all()
    assert store.outbox.count("dispatched") == 3
    one.until(lambda: store.outbox.count("dispatched") == 0, "the next sweep")


def test_a_sweep_is_the_first_lanes_holders(store: Any) -> None:
    add_numbers(store, *range(1, 4))
    Turned(store).sent_all().stop()
    assert store.outbox.claim(0, "another", 1) is not None
    one = Turned(store, outbox=replace(OUTBOX, retention=0.01))
    one.later()
    assert store.outbox.count("dispatched") == 3


def test_a_sweep_leaves_the_first_lanes_lease_as_long_as_the_relay_takes_it(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, rest = store.outbox.claim, []

    def claimed(lane: int, token: str, limit: int, after: int = 0, *lease: timedelta) -> Any:
        batch = claim(lane, token, limit, after, *lease)
        if after == care.LAST:
            rest.append(batch.expires_at - datetime.now(UTC))
        return batch

    monkeypatch.setattr(store.outbox, "claim", claimed)
    Turned(store, outbox=replace(OUTBOX, lease=3600.0)).later()
    assert rest
    assert all(wait > timedelta(minutes=50) for wait in rest)


def test_187_who_waits_is_told_where_the_store_can_and_looks_are_made_always(store: Any) -> None:
    one = Turned(store)
    signal = threading.Event()
    can = threading.Thread(target=lambda: store.outbox.wait(10.0) and signal.set(), daemon=True)
    can.start()
    add_numbers(store, 1)
    can.join(15)
    assert not can.is_alive()
    assert values(one.later(1.0).log) == [b"v1"]  # whether it was told or not


def test_193_health_is_judged_by_the_age_of_the_oldest_pending_row_and_by_the_dead_ones(store: Any) -> None:
    low, high = Threshold(0.0, 1), Threshold(3600.0, 2)
    one = Turned(store, outbox=replace(OUTBOX, degraded=low, unhealthy=high))
    one.producer.fate = lambda row: "rejected"
    one.later(5)
    assert (one.report().ready, list(one.report().reasons)) == (True, [])
    add_numbers(store, 1)
    one.sent_all().later(5)
    assert (one.report().ready, list(one.report().reasons)) == (
        True,
        ["1 rows of the outbox are dead: `sluicegate outbox ls`"],
    )
    add_numbers(store, 2)
    one.sent_all().later(5)
    assert not one.report().ready
    store.outbox.drop(["m1", "m2"])
    one.producer.hold = True
    add_numbers(store, 3)
    one.later(5).later(5)
    assert one.report().ready
    assert "the oldest pending row of the outbox is" in one.report().reasons[0]
    old = Turned(store, outbox=replace(OUTBOX, degraded=low, unhealthy=Threshold(0.0, 2)))
    old.producer.hold = True
    assert not old.later(5).report().ready


def test_194_attempts_are_counted_by_outcome_with_their_time_and_what_retention_deleted(store: Any) -> None:
    add(store, message(1), message(2), message(3, topic="denied"))
    one = Turned(store, outbox=replace(OUTBOX, retention=0.05))
    fates = {b"v1": "delivered", b"v2": "rejected", b"v3": "denied"}
    one.producer.fate = lambda row: fates[row.value]
    one.sent_all().until(lambda: store.outbox.count("dispatched") == 0, "the sweep")
    text = exposed(one)
    for outcome, count in (("success", 1), ("rejected", 1), ("transient", 2), ("poison", 1)):
        assert (
            f'sluicegate_dispatch_attempts_total{{agent="dispatcher",outcome="{outcome}",worker="0"}} {count}.0' in text
        )
    assert 'sluicegate_dispatch_seconds_count{agent="dispatcher",worker="0"} 1.0' in text
    assert 'sluicegate_retention_deleted_total{agent="dispatcher",worker="0"} 1.0' in text
    one.later(5)
    assert 'sluicegate_outbox_rows{agent="dispatcher",state="dead",worker="0"} 2.0' in exposed(one)
    assert 'sluicegate_outbox_rows_oldest_age_seconds{agent="dispatcher",worker="0"} 0.0' in exposed(one)


def board_of(one: Turned) -> Board:
    board, report = Board(lambda: one.clock.now), one.report()
    board.phase("running")
    board.expect((report.agent, report.worker), report.pid)
    board.put(report)
    return board


def exposed(one: Turned) -> str:
    return exposition(board_of(one), Meter()).decode()


def test_200_health_is_part_of_readiness_and_can_be_turned_off(store: Any) -> None:
    add_numbers(store, 1)
    strict = replace(OUTBOX, degraded=Threshold(3600.0, 1), unhealthy=Threshold(3600.0, 1))
    one = Turned(store, outbox=strict)
    one.producer.fate = lambda row: "rejected"
    one.sent_all().later(5)
    answer = pages(board_of(one), Meter())["/readyz"]()
    assert (answer.status, b"rows of the outbox are dead" in answer.body) == (503, True)
    loose = Turned(store, outbox=replace(strict, unhealthy=Threshold(3600.0, 10**9))).later(5)
    answer = pages(board_of(loose), Meter())["/readyz"]()
    assert (answer.status, b'"degraded"' in answer.body) == (200, True)
    off = Turned(store, outbox=None).later(5)
    answer = pages(board_of(off), Meter())["/readyz"]()
    assert (answer.status, b'"degraded"' in answer.body) == (200, False)


def test_a_store_that_does_not_answer_is_said_and_waited_for(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.streams.errors import PersistenceError

    def away(*_: Any) -> Any:
        raise PersistenceError("the store is away")

    one = Turned(store)
    with monkeypatch.context() as patched:
        patched.setattr(store.outbox, "pending_age", away)
        patched.setattr(store.timeouts, "get_batch", away)
        one.later()
        assert (one.report().ready, list(one.report().reasons)) == (
            False,
            ["a system does not answer: the store is away"],
        )
    one.later()
    assert one.report().ready
    wait_until(lambda: one.later().report().ready)
