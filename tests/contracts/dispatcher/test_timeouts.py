"""Due timeouts become messages: by batches, never before their time, whatever fails."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sluicegate.streams.config import load
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.outbox import due
from tests.contracts.dispatcher.given import TIMEOUTS, Turned, headers, values
from tests.unit.config.files import GOOD


def timeout(number: int, after: float = -60.0, topic: str = "t") -> Timeout:
    """Due so many seconds from now."""
    at = datetime.now(UTC) + timedelta(seconds=after)
    return Timeout(id=uuid4(), destination=topic, due_at=at, key=b"k", value=b"v%d" % number)


def test_121_the_cadence_is_the_files_and_must_be_a_time(store: Any, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(GOOD + "timeouts: {poll: 0s}\n")
    assert "timeouts.poll: is out of range" in str(load(file, {}).problems[0])
    one = Turned(store, timeouts=replace(TIMEOUTS, poll=10.0))
    one.turns()
    store.timeouts.insert(timeout(1))
    one.later(9.0)
    assert values(one.log) == []
    one.later(1.0)
    assert values(one.sent_all().log) == [b"v1"]


def test_122_timeouts_are_sent_unless_the_file_turns_them_off(store: Any, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(GOOD)
    loaded = load(file, {}).app
    assert loaded is not None
    assert loaded.timeouts is not None
    store.timeouts.insert(timeout(1))
    off = Turned(store, timeouts=None)
    off.later(5)
    assert store.timeouts.count() == 1
    one = Turned(store, timeouts=loaded.timeouts)
    one.until(lambda: values(one.log) == [b"v1"], "the timeout")


def test_123_what_was_taken_over_before_it_was_emitted_is_emitted_by_the_other_alone(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that ran out meanwhile needs no margin: emission and removal are one transaction that compares it."""
    store.timeouts.insert(timeout(1), timeout(2))
    one = Turned(store, outbox=None)
    emit = store.timeouts.emit

    def overtaken(batch: Any) -> int:
        for row in batch:
            store.timeouts.release(row.id)
        return emit(batch)

    with monkeypatch.context() as patched:
        patched.setattr(store.timeouts, "emit", overtaken)
        one.turns()
    assert (store.outbox.count("pending"), store.timeouts.count(), one.count("timeouts_emitted")) == (0, 2, 0)
    two = Turned(store)
    two.until(lambda: len(values(two.log)) == 2, "both")
    assert two.count("timeouts_emitted") == 2


def test_124_full_batches_are_followed_at_once_and_at_most_32_in_a_turn(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "MOST_BATCHES", 4)
    store.timeouts.insert(*(timeout(number) for number in range(10)))
    one = Turned(store, outbox=None, timeouts=replace(TIMEOUTS, batch=2))
    one.dispatcher.turn()
    assert store.timeouts.count() == 2
    one.dispatcher.turn()
    one.dispatcher.turn()
    assert store.timeouts.count() == 0
    assert due.MOST_BATCHES == 4
    monkeypatch.undo()
    assert due.MOST_BATCHES == 32


def test_126_one_whose_topic_is_not_there_does_not_stop_the_others(store: Any) -> None:
    first = timeout(1, -100, topic="missing")
    store.timeouts.insert(first, *(timeout(number) for number in range(2, 5)))
    one = Turned(store)
    one.log.partitions = 0
    one.log.create("t")
    one.sent_all()
    assert sorted(str(value) for value in values(one.log)) == sorted(str(b"v%d" % number) for number in range(2, 5))
    assert [row.message.id for row in store.outbox.find("dead")] == [str(first.id)] or store.outbox.count("dead") == 1


def test_none_is_sent_before_its_time_and_each_soon_after_it(store: Any) -> None:
    first, second = timeout(1, 0.4), timeout(2, 0.8)
    store.timeouts.insert(first, second)
    one = Turned(store)
    seen = dict[bytes | None, float]()

    def both() -> bool:
        for value in values(one.log):
            seen.setdefault(value, time.time())
        return len(seen) == 2

    one.until(both, "both timeouts")
    assert seen[b"v1"] - first.due_at.timestamp() + 0.005 >= 0
    assert seen[b"v2"] - second.due_at.timestamp() + 0.005 >= 0
    assert one.count("timeouts_emitted") == 2


def test_a_timeout_arrives_with_its_key_and_an_id_that_is_the_same_however_often_it_is_emitted(store: Any) -> None:
    timeout_ = timeout(1)
    store.timeouts.insert(timeout_)
    one = Turned(store)
    one.until(lambda: values(one.log), "the timeout")
    [sent] = one.log.order["t"]
    assert sent.k == b"k"
    assert "sluicegate-id" in headers(sent)


def test_what_was_claimed_is_emitted_first_after_the_store_was_away(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when its lease is over."""
    store.timeouts.insert(timeout(1), timeout(2))
    one = Turned(store)

    def away(batch: Any) -> int:
        raise PersistenceError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(store.timeouts, "emit", away)
        one.turns()
        assert list(one.report().reasons) == ["a system does not answer: the store is away"]
    one.until(lambda: len(values(one.log)) == 2, "both")
    assert one.clock.now < 1030  # no lease is over


def test_the_next_look_is_when_the_next_one_is_due(store: Any) -> None:
    store.timeouts.insert(timeout(1, 1.0))
    one = Turned(store, timeouts=replace(TIMEOUTS, poll=3600.0))
    one.turns()
    one.until(lambda: values(one.log), "the timeout")
    assert one.clock.now < 3000
