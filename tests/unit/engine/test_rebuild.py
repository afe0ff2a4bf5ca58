"""`replay --rebuild`: the state of a lost store is what it was, nothing is sent twice, and whoever dies on the way can
try again."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Reducer
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.rebuilding import rebuild_write
from sluicegate.streams.operations.rebuilding.rebuild_plan import RebuildRange
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory
from tests.unit.engine.rebuilding import ANNE, amounts, emitted_twice, feed_at, rebuild, state, worked
from tests.unit.engine.scene import a_log, an_agent, dead, shown, totals

COMPUTE = (Reducer("total", "sum", "amount"), Reducer("all", "collect", "amount"))
FIVES = an_agent(count=5, since_first=600.0, compute=COMPUTE)


def unsent(store: MemoryStore, number: int = 0) -> list[OutboxRow]:
    return list(store.pending(Partition("app", "sums", "in", number), 0, 1000))


def test_the_state_is_what_it_was_and_the_deadline_too(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    amounts(log, clock, "abcabcaab" * 3)
    driver = worked(FIVES, store, log, clock)
    before, due = state(FIVES, store), driver.worker._owners["in", 0].groups.newest.next_due()
    assert before[1].keys() == {b"a", b"b", b"c"}
    lost = memory(clock)
    [planned] = rebuild(FIVES, lost, log, clock)
    assert state(FIVES, lost) == before
    assert (planned.built.records, planned.built.results, planned.built.decided) == (27, 4, {})
    again = Driver(FIVES, lost, log, clock).give(0).turns()
    assert shown(again)[1] == {("in", 0): ("running", None)}
    assert again.worker._owners["in", 0].groups.newest.next_due() == pytest.approx(due, abs=0.01)


def test_a_second_run_adds_nothing(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    amounts(log, clock, "abab")
    worked(FIVES, store, log, clock)
    lost = memory(clock)
    assert len(rebuild(FIVES, lost, log, clock)) == 1
    partition = Partition("app", "sums", "in", 0)
    before = lost.read(partition)
    assert rebuild(FIVES, lost, log, clock) == []
    assert lost.read(partition) == before


def test_what_was_decided_and_never_sent_is_sent_once_under_the_id_that_it_had(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "a" * 10)
    worked(FIVES, store, log, clock)
    amounts(log, clock, "a" * 12, first=10)
    feed_at(log, clock, "a", b"{")
    driver = Driver(FIVES, store, log, clock).give(0)
    driver.producer.room = 0
    driver.turns().later(0.5).turns()
    rows = unsent(store)
    assert len(rows) == 3
    lost = memory(clock)
    [planned] = rebuild(FIVES, lost, log, clock)
    assert (planned.built.results, len(planned.built.decided)) == (2, 3)
    again = unsent(lost)
    assert [(row.id, row.topic, row.key, row.value) for row in again][-1] == (rows[-1].id, "dead", b"a", b"{")
    assert {row.id for row in again} == {row.id for row in rows}
    assert min(row.number for row in again) > 2
    Driver(FIVES, lost, log, clock).give(0).turns()
    assert emitted_twice(log.topics["out"][0] + log.topics["dead"][0]) == []
    assert [total for _, _, _, total in totals(log)] == [10, 35, 60, 85]
    assert dead(log) == [("22", "undecodable")]


def test_without_the_boundaries_what_was_sent_is_sent_again(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    amounts(log, clock, "a" * 12)
    worked(FIVES, store, log, clock)
    lost = memory(clock)
    with without("rebuild-boundaries"):
        rebuild(FIVES, lost, log, clock)
    Driver(FIVES, lost, log, clock).give(0).turns()
    assert len(emitted_twice(log.topics["out"][0])) == 2


def test_groups_that_timed_out_or_were_ended_by_hand_are_cut_where_they_were(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "aabbb")
    driver = worked(FIVES, store, log, clock)
    driver.later(700).turns()
    amounts(log, clock, "aaab", first=5)
    driver.turns().later(0.5).turns()
    before = state(FIVES, store)
    assert {key: group[:2] for key, group in before[1].items()} == {b"a": (3, 5), b"b": (1, 8)}
    lost = memory(clock)
    rebuild(FIVES, lost, log, clock)
    assert state(FIVES, lost) == before


def test_results_about_an_earlier_topic_of_the_same_name_do_not_count(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "a" * 5)
    worked(FIVES, store, log, clock)
    log.create("in")
    del log.committed["app.sums", "in", 0]
    amounts(log, clock, "bbaaaaaba", first=100)
    store = memory(clock)
    worked(FIVES, store, log, clock)
    before = state(FIVES, store)
    lost = memory(clock)
    [planned] = rebuild(FIVES, lost, log, clock)
    assert (planned.built.results, state(FIVES, lost)) == (1, before)


@pytest.mark.parametrize("lost_at", range(1, 9))
def test_killed_at_any_commit_no_worker_takes_the_half_and_a_second_run_ends_it(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, clock: ManualClock, lost_at: int
) -> None:
    log, agent = a_log(partitions=2), FIVES
    monkeypatch.setattr(rebuild_write, "COMMIT_BYTES", 1)
    amounts(log, clock, "abcd", 0)
    amounts(log, clock, "xyyyyyyz", 1)
    driver = Driver(agent, store, log, clock).give(0, 1)
    driver.producer.room = 0
    driver.turns().later(0.5).turns()
    before = [state(agent, store, number) for number in (0, 1)]
    again = memory(clock)
    kill_at(again, lost_at)
    with pytest.raises(PersistenceError):
        rebuild(agent, again, log, clock)
    kill_at(again, 0)
    halted = shown(Driver(agent, again, log, clock).give(0, 1).turns())[1].values()
    assert any(reason[0] == "halted" for reason in halted)
    assert distinct(log, "out") == []
    rebuild(agent, again, log, clock)
    assert [state(agent, again, number) for number in (0, 1)] == before
    Driver(agent, again, log, clock).give(0, 1).turns()
    assert [(key, total) for key, _, _, total in totals(log)] == [("y", 15)]


def test_killed_before_it_removes_the_row_that_holds_a_number_nothing_is_sent_and_a_second_run_removes_it(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "a" * 5 + "b")
    worked(FIVES, store, log, clock)
    before, lost, partition = state(FIVES, store), memory(clock), Partition("app", "sums", "in", 0)
    lost_at = 0
    while [row.id for row in lost.pending(partition, 0, 9)] != [""]:
        lost, lost_at = memory(clock), lost_at + 1
        kill_at(lost, lost_at)
        with pytest.raises(PersistenceError):
            rebuild(FIVES, lost, log, clock)
    kill_at(lost, 0)
    Driver(FIVES, lost, log, clock).give(0).turns()
    rebuild(FIVES, lost, log, clock)
    assert (state(FIVES, lost), lost.pending(partition, 0, 9)) == (before, [])
    amounts(log, clock, "bbbb", first=6)
    Driver(FIVES, lost, log, clock).give(0).turns().later(0.5).turns()
    assert log.high("in", 0) == 10
    assert [header(message, "sluicegate-seq") for message in distinct(log, "out")] == ["1", "2"]


def kill_at(store: Any, number: int) -> None:
    """The commit of this number is the last that is done, and nobody hears of it; 0: none is."""
    store.done = 0
    commit = type(store).commit

    def counted(claim: Any, changes: Any) -> Any:
        store.done += 1
        done = commit(store, claim, changes)
        if store.done == number:
            raise PersistenceError("killed")
        return done

    store.commit = counted


@pytest.mark.parametrize("protection", ["", "rebuild-mark"], ids=["", "twin"])
def test_a_worker_reads_past_no_mark_but_past_a_half_without_one(
    monkeypatch: pytest.MonkeyPatch, log: Log, store: MemoryStore, clock: ManualClock, protection: str
) -> None:
    monkeypatch.setattr(rebuild_write, "COMMIT_BYTES", 1)
    amounts(log, clock, "abcd")
    worked(FIVES, store, log, clock)
    log.committed.clear()  # Kafka forgets the offsets of a group, too, and its warning with them
    amounts(log, clock, "e" * 5, first=4)
    driver = Driver(FIVES, store, log, clock).give(0).turns()
    assert driver
    log.committed.clear()
    lost = memory(clock)
    kill_at(lost, 3)
    with without(protection), pytest.raises(PersistenceError):
        rebuild(FIVES, lost, log, clock)
    kill_at(lost, 0)
    text = shown(Driver(FIVES, lost, log, clock).give(0).turns())[1]["in", 0]
    assert text == (("running", None) if protection else ("halted", "changelog-incomplete"))


def test_killed_before_kafka_was_told_a_second_run_tells_it(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    amounts(log, clock, "abab")
    worked(FIVES, store, log, clock)
    positions = dict(log.committed)
    lost = memory(clock)
    rebuild(FIVES, lost, log, clock)
    log.committed.update(positions)
    assert shown(Driver(FIVES, lost, log, clock).give(0).turns())[1]["in", 0] == ("halted", "store-swapped")
    assert rebuild(FIVES, lost, log, clock) == []
    assert shown(Driver(FIVES, lost, log, clock).give(0).turns())[1]["in", 0] == ("running", None)


def test_only_a_store_that_was_rebuilt_is_made_known_to_kafka(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    amounts(log, clock, "abab")
    worked(FIVES, store, log, clock)
    committed = {
        key: (offset, metadata.replace(store.incarnation, "another"))
        for key, (offset, metadata) in log.committed.items()
    }
    log.committed.update(committed)
    assert rebuild(FIVES, store, log, clock) == []
    assert log.committed == committed


def test_a_rebuilt_store_that_is_behind_is_not_made_known_to_kafka(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "abab")
    worked(FIVES, store, log, clock)
    lost = memory(clock)
    rebuild(FIVES, lost, log, clock)
    committed = {
        key: (offset + 1, metadata.replace(lost.incarnation, "another"))
        for key, (offset, metadata) in log.committed.items()
    }
    log.committed.update(committed)
    rebuild(FIVES, lost, log, clock)
    assert log.committed == committed


def test_what_was_sent_tells_how_far_it_was_read_when_the_group_is_behind(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "a" * 7)
    feed_at(log, clock, "a", b"{")
    worked(FIVES, store, log, clock)
    for committed, offset in ((0, 8), (8, 8)):
        log.committed.update({key: (committed, metadata) for key, (_, metadata) in log.committed.items()})
        lost = memory(clock)
        [planned] = rebuild(FIVES, lost, log, clock)
        assert (planned.built.offset, planned.built.decided, state(FIVES, lost)) == (offset, {}, state(FIVES, store))


def test_records_after_a_named_offset_that_are_in_a_result_from_before_it_are_done(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "aabaaabb")
    worked(FIVES, store, log, clock)
    lost = memory(clock)
    [planned] = rebuild(FIVES, lost, log, clock, RebuildRange(since=2))
    assert (planned.built.records, planned.built.decided, state(FIVES, lost)) == (6, {}, state(FIVES, store))


def test_who_rebuilt_and_why_is_kept(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    amounts(log, clock, "abab")
    worked(FIVES, store, log, clock)
    lost = memory(clock)
    rebuild(FIVES, lost, log, clock)
    partition = Partition("app", "sums", "in", 0)
    view = lost.read(partition)
    assert view is not None
    [change] = contents_of(FIVES, partition, view).amended
    assert (change.who, change.what, change.key, change.why) == (ANNE.who, "replay --rebuild", "in/0 to 4", ANNE.why)


def test_partitions_that_nobody_read_are_left_alone(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=3)
    amounts(log, clock, "ab", 1)
    Driver(FIVES, store, log, clock).give(1).turns().later(0.5).turns()
    amounts(log, clock, "ab", 2)
    lost = memory(clock)
    assert [plan.built.partition.number for plan in rebuild(FIVES, lost, log, clock)] == [1]
    assert [partition.number for partition in lost.partitions("app")] == [1]
