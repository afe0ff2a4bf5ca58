"""Repeats from our own senders: dropped only when they were certainly seen."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.streams.reading import receive
from sluicegate.streams.reading.receive import LONGEST_NAME, MOST_NAMES, ReceivedShards
from tests.unit.engine.driver import LogRecord

SHARD = "app/a/src/0>in#token"


def record(
    shard: bytes | None = SHARD.encode(), number: bytes | None = b"7", offset: int = 0, extra: Any = ()
) -> LogRecord:
    headers: list[tuple[str, bytes | None]] = [("sluicegate-shard", shard), ("sluicegate-seq", number), *extra]
    return LogRecord("in", 0, offset, b"k", b"v", headers)


def restored(senders: ReceivedShards, now: float = 0.0) -> ReceivedShards:
    """As after a crash: from what the changelog holds."""
    after = ReceivedShards("in")
    after.replay({}, senders.whole(now), now)
    return after


def test_a_number_is_new_once() -> None:
    senders = ReceivedShards("in")
    assert [len(senders.drop_repeats([record(number=n)], 1.0)) for n in (b"1", b"2", b"1", b"3", b"2")] == [
        1,
        1,
        0,
        1,
        0,
    ]
    assert senders.receipts() == (2, 0, 0)
    assert senders.receipts() == (0, 0, 0)


def test_a_number_within_the_window_that_was_not_seen_is_new() -> None:
    senders = ReceivedShards("in")
    senders.note(SHARD, receive.WINDOW, 1.0)
    assert [senders.note(SHARD, n, 1.0) for n in (1, 5, 1)] == [False, False, True]


def test_a_number_below_the_window_is_accepted_and_counted() -> None:
    senders = ReceivedShards("in")
    senders.note(SHARD, 5 * receive.WINDOW, 1.0)
    assert not senders.note(SHARD, 4 * receive.WINDOW, 1.0)
    assert senders.receipts() == (0, 1, 0)


def after_a_forged_number(senders: ReceivedShards) -> list[bool]:
    """Which of the numbers that are sent twice are repeats, once another program has written a number of 18 digits."""
    senders.note(SHARD, 10**17, 1.0)
    seen = []
    for number in range(1, 3 * receive.WINDOW, 7):
        senders.note(SHARD, number, 1.0)
        seen.append(senders.note(SHARD, number, 1.0))
        if number % 1_000 == 1:
            senders = restored(senders)
    return seen


def test_one_forged_number_ends_no_dropping_of_repeats() -> None:
    senders = ReceivedShards("in")
    assert all(after_a_forged_number(senders))
    assert senders.receipts()[1] > 0
    for number in range(10**17, 10**17 + 5 * receive.WINDOW):
        senders.note(SHARD, number, 1.0)
    assert len(senders.shards[SHARD].numbers) <= 2 * receive.WINDOW


def test_twin_that_keeps_the_numbers_below_the_highest(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(self: receive.SenderShard, number: int, at: float) -> None:
        self.highest, self.at = max(self.highest, number), at
        if number > self.highest - receive.WINDOW:
            self.numbers[number] = None

    monkeypatch.setattr(receive.SenderShard, "note", note)
    assert not any(after_a_forged_number(ReceivedShards("in")))


def test_the_last_numbers_are_known_also_after_the_oldest_were_left_out() -> None:
    senders = ReceivedShards("in")
    for number in range(1, 2 * receive.WINDOW + 2):
        senders.note(SHARD, number, 1.0)
    senders = restored(senders)
    last = range(receive.WINDOW + 2, 2 * receive.WINDOW + 2)
    assert all(senders.note(SHARD, number, 1.0) for number in last)


def test_shards_that_anyone_may_name_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest silent ones are forgotten, also by the process that restores them; one that sends is known."""
    monkeypatch.setattr(receive, "MOST_SENDERS", 100)
    senders = ReceivedShards("in")
    for number in range(1_000):
        senders.note(f"forged-{number}>in#x", 1, float(number))
        senders.note(SHARD, number, float(number))
    assert len(senders.shards) <= 100
    assert senders.note(SHARD, 999, 1_000.0)
    assert senders.receipts()[2] > 800
    after = ReceivedShards("in")
    after.replay(senders.changes(), {}, 1_000.0)
    assert len(after.shards) <= 100
    assert after.note(SHARD, 999, 1_000.0)


def test_another_lineage_starts_anew() -> None:
    senders = ReceivedShards("in")
    assert [senders.note(shard, 1, 1.0) for shard in (SHARD, SHARD + "x", SHARD)] == [False, False, True]


@pytest.mark.parametrize(
    ("shard", "number"),
    [
        (b"app/a/src/0>other#token", b"1"),
        (b"app/a/src/0#token", b"1"),
        (SHARD.encode(), b"-1"),
        (SHARD.encode(), b"1.0"),
        (SHARD.encode(), b""),
        (SHARD.encode(), None),
        (SHARD.encode(), b"9" * 19),
        (SHARD.encode(), b"\xd9\xa1"),
        (None, b"1"),
        (b"\xff>in#t", b"1"),
        (b"a" * LONGEST_NAME + b">in#t", b"1"),
    ],
)
def test_headers_that_are_malformed_or_meant_for_another_topic_are_ignored(
    shard: bytes | None, number: bytes | None
) -> None:
    senders = ReceivedShards("in")
    again = [record(shard, number, offset) for offset in range(3)]
    assert senders.drop_repeats(again, 1.0) == again
    assert senders.shards == {}


def test_names_of_shards_that_anyone_may_send_take_bounded_memory() -> None:
    senders = ReceivedShards("in")
    for number in range(3 * MOST_NAMES):
        senders.drop_repeats([record(b"%d" % number + b"n" * 1_000 + b">other#t", b"1", number)], 1.0)
    assert len(senders._names) <= MOST_NAMES


def test_records_without_headers_pass() -> None:
    records = [LogRecord("in", 0, 0, b"k", b"v", None), LogRecord("in", 0, 1, b"k", b"v", [])]
    assert ReceivedShards("in").drop_repeats(records, 1.0) == records


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=120))
def test_what_was_seen_survives_any_restore(arrivals: list[tuple[int, bool]]) -> None:
    senders, seen = ReceivedShards("in"), set[int]()
    for number, crash in arrivals:
        assert senders.note(SHARD, number, 1.0) is (number in seen)
        seen.add(number)
        if crash:
            senders = restored(senders)


def test_fresh_numbers_alone_rebuild_what_was_seen() -> None:
    senders, after = ReceivedShards("in"), ReceivedShards("in")
    for number in (3, 1, 2):
        senders.note(SHARD, number, 5.0)
        after.replay(senders.changes(), {}, 5.0)
    assert [after.note(SHARD, n, 6.0) for n in (1, 2, 3, 4)] == [True, True, True, False]


def test_a_lineage_that_was_silent_for_a_week_is_forgotten_and_others_are_not() -> None:
    senders = ReceivedShards("in")
    senders.note(SHARD, 1, 0.0)
    senders.note(SHARD + "new", 1, receive.FORGET_AFTER / 2)
    assert set(senders.whole(receive.FORGET_AFTER - 1)) == {SHARD, SHARD + "new"}
    assert set(senders.whole(receive.FORGET_AFTER)) == {SHARD + "new"}
    assert set(senders.shards) == {SHARD + "new"}


def test_172_what_is_remembered_of_a_sender_is_bounded() -> None:
    senders = ReceivedShards("in")
    for number in range(1, 5 * receive.WINDOW):
        senders.note(SHARD, number, 1.0)
    assert len(senders.shards[SHARD].numbers) <= 2 * receive.WINDOW
    assert senders.note(SHARD, 4 * receive.WINDOW + 1, 1.0)
