"""Windows whose groups are rows of the store: the same windows close with the same records, and the same records are
late, as when all groups are in memory. One to three groups stay hot."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, cast

import pytest

from sluicegate.connectors.memory.cold import ColdRows
from sluicegate.streams.agent import Emit, Reducer, Window
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.durable.entry import unpacked, unpacked_state
from sluicegate.streams.contracts.stores import ColdGroups
from sluicegate.streams.contracts.values import ColdGroup, Partition
from sluicegate.streams.ownership.paged import ColdReads
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.windows.cold import starts
from sluicegate.streams.windows.tumbling import key_of, name
from tests.unit.windows import test_same_early, test_same_late
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_overlapping import outcomes
from tests.unit.windows.test_same_windows import a_log, a_window, expected, played
from tests.unit.windows.turning import TOTAL, Turned, opened, rule_of

LOGS = 200
PLACE = Partition("app", "sums", "in", 0)

pytestmark = pytest.mark.usefixtures("small")


class Rows:
    """The part of a store that reads cold groups."""

    def __init__(self) -> None:
        self.rows = ColdRows()

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> list[ColdGroup]:
        return [self.rows.groups[key] for key in keys if key in self.rows.groups]

    def due(self, partition: Partition, until: float, limit: int) -> list[ColdGroup]:
        return self.rows.due(until, limit)

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> list[ColdGroup]:
        return self.rows.page(after, limit)

    def before(self, partition: Partition, key: bytes, limit: int) -> list[ColdGroup]:
        return self.rows.before(key, limit)


class PagedTurned(Turned):
    """As Turned, with cold groups. `evicted` is the number of rows that commits wrote."""

    def __init__(self, window: Window, hot: int, **more: Any) -> None:
        self.store, self.hot, self.evicted, self.now = Rows(), hot, 0, 0.0
        super().__init__(window, **more)

    def restore(self) -> None:
        super().restore()
        paging = self.changelog.paging
        paging.restored()
        self.reads = ColdReads(cast(ColdGroups, self.store), PLACE, self.groups, paging, lambda: None)
        for _ in self.reads.judge(self.now):
            raise AssertionError("a deadline was computed again")

    def take(self, first: int, steps: Sequence[Step]) -> None:
        [_] = self.reads.look_up(self.records(first, steps), steps[0].now)
        super().take(first, steps)

    def expire(self, now: float) -> None:
        while self.groups.next_due() <= now or self.reads.next_due() <= now:
            if self.reads.next_due() <= now:
                self.reads.expire(now)
            self.groups.expire(now, 2)

    def commit(self, now: float, done: int) -> None:
        paging, self.now = self.changelog.paging, now
        paging.most = self.hot
        evicted, gone, due = paging.moved(now)
        super().commit(now, done)
        self.store.rows.apply(evicted, [*gone, *(row.key for row in due)])
        self.evicted += len(evicted)
        cold = self.groups.cold
        rows = [row for row in self.store.rows.groups.values() if cold.is_cold(row.key, paging.gone)]
        counted = [start for row in rows for start in cold.starts_in(row.key, unpacked_state(row.state))]
        assert cold.count == len(counted)
        assert cold.starts == {start: counted.count(start) for start in sorted({*counted} - {None})}


def as_the_oracle(partition: PagedTurned, oracle: Any, seed: int) -> int:
    """The partition has ended as the oracle has, and no row is left. Returns the number of rows that it wrote."""
    assert sorted(partition.results) == sorted(oracle.results), seed
    assert partition.refused == oracle.refused, seed
    assert (partition.groups.states, partition.groups.cold.count, partition.store.rows.groups) == ({}, 0, {}), seed
    return partition.evicted


def as_when_hot(window: Window, hot: int, steps: Sequence[Step], seed: int, **more: Any) -> int:
    """The results are those of a partition without cold groups. Returns the number of rows that were written."""
    whole = played(Turned(window, **more), steps, random.Random(seed))
    cold = played(PagedTurned(window, hot, **more), steps, random.Random(seed))
    assert sorted(cold.results, key=repr) == sorted(whole.results, key=repr), seed
    assert cold.refused == whole.refused, seed
    return cold.evicted


def limits(chance: random.Random) -> dict[str, Any]:
    """Settings of the rule under which groups end, or are refused, before their windows close."""
    made: list[dict[str, Any]] = [
        {"count": 3},
        {"max_groups": chance.randint(1, 4), "on_full": "dead-letter"},
        {"compute": (*TOTAL, Reducer("all", "collect", "amount")), "max_items": 3},
        {"compute": (*TOTAL, Reducer("all", "collect", "amount")), "max_buffered_bytes": 8, "on_full": "dead-letter"},
        {"emit": Emit(count=2)},
        {"emit": Emit(on="change", final=False)},
    ]
    return chance.choice(made)


def a_calendar(chance: random.Random) -> Window:
    """Days of a zone whose windows are not multiples of a duration. Logs of seconds are in one day, or in two."""
    grace, at_most = chance.choice([0.0, 3.0]), 86_400.0 + chance.choice([10.0, 1e9])
    return Window(86_400.0, grace=grace, idle=6.0, at_most=at_most, max_ahead=1e9, calendar="day", zone="Europe/Vienna")


def test_any_cut_and_any_crash_give_the_windows_of_the_oracle() -> None:
    evicted = 0
    for seed in range(LOGS):
        chance = random.Random(seed)
        window, steps, count = a_window(chance), a_log(chance), chance.choice([3, 10_000])
        oracle = expected(window, steps, count)
        hot = chance.randint(1, 3)
        partition = played(PagedTurned(window, hot, count=None if count > 100 else count), steps, chance)
        evicted += as_the_oracle(partition, oracle, seed)
    assert evicted > 2 * LOGS


@pytest.mark.parametrize("kind", ["limits", "calendar", "skip", "at_most"])
def test_what_is_cold_changes_no_result(kind: str) -> None:
    evicted = 0
    for seed in range(LOGS):
        chance = random.Random(f"{kind} {seed}")
        window, steps, more = a_window(chance), a_log(chance), limits(chance) if kind == "limits" else {}
        if kind == "calendar":
            window = a_calendar(chance)
            steps = [replace_time(step, chance) for step in steps]
        if kind == "at_most":
            window = replace(window, idle=None, grace=1e6, at_most=chance.choice([5.0, 10.0]))
        window = replace(window, late="skip") if kind == "skip" else window
        evicted += as_when_hot(window, chance.randint(1, 3), steps, seed, **more)
    assert evicted > LOGS


@pytest.mark.parametrize("kind", ["count", "new", "amend"])
def test_hopping_windows_of_their_own_are_those_of_the_oracle(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "MOST_STARTS", 40)  # more do not fit in an entry of the tests
    evicted = 0
    for seed in range(LOGS):
        oracle, partition = outcomes(kind, seed, partial(PagedTurned, hot=1 + seed % 4))
        assert isinstance(partition, PagedTurned)
        if kind == "count":
            evicted += as_the_oracle(partition, oracle, seed)
            continue
        assert sorted(partition.results) == sorted(oracle.results), seed
        assert partition.refused == oracle.refused, seed
        evicted += partition.evicted
    assert evicted > 2 * LOGS


def of_windows(partition: Turned) -> list[Any]:
    """The results of windows that ended, without those that a limit completed: those of each key in their order."""
    return sorted((result for result in partition.results if result.reason == "window"), key=lambda result: result.key)


@pytest.mark.parametrize("kind", test_same_late.KINDS)
def test_late_records_have_the_results_of_the_oracle(kind: str) -> None:
    evicted = closed = 0
    for seed in range(LOGS):
        oracle, partition = test_same_late.KINDS[kind](seed, partial(PagedTurned, hot=1 + seed % 3))
        assert isinstance(partition, PagedTurned)
        assert sorted(partition.results) == sorted(oracle.results), seed
        assert partition.refused == oracle.refused, seed
        assert of_windows(partition) == of_windows(test_same_late.KINDS[kind](seed)[1]), seed
        for rows in partition.reads._pages(partition.groups):
            closed += len(partition.reads._warm(rows))
        assert {*partition.groups.states} == {*partition.groups.closed} == test_same_late.left(oracle), seed
        evicted += partition.evicted
    assert evicted > 2 * LOGS
    assert (closed > 0) is (kind == "amend")


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "sessions"])
def test_cold_groups_have_the_early_results_of_the_oracle(kind: str) -> None:
    partitions: list[PagedTurned] = []

    def paged(window: Window, **more: Any) -> PagedTurned:
        partitions.append(PagedTurned(window, 1 + len(partitions) % 3, **more))
        return partitions[-1]

    assert [seed for seed in range(LOGS) if getattr(test_same_early, kind)(seed, paged)] == []
    assert [partition for partition in partitions if partition.store.rows.groups] == []
    periodic = [partition for partition in partitions if partition.groups.early.every < inf]
    assert sum(partition.evicted for partition in periodic) > LOGS


def test_a_group_that_was_cold_ends_at_most_then_when_the_heaps_are_made_anew() -> None:
    partition = PagedTurned(Window(5.0, grace=1e6, idle=None, at_most=10.0), 2)
    for offset, key in enumerate((b"a", b"b", b"c", b"a")):
        partition.take(offset, [Step(1.0 + offset, key, 0, 1)])
        partition.commit(1.0 + offset, offset + 1)
    assert [key_of(name) for name in partition.groups.states] == [b"c", b"a"]
    partition.groups.rearm()
    partition.look(11.5)
    partition.commit(11.5, 4)
    assert [(result.key, result.closed_by) for result in partition.results] == [(b"a", "at_most")]


def test_a_group_that_was_cold_ends_at_most_then_though_it_has_an_early_result_before() -> None:
    partition = PagedTurned(Window(5.0, grace=1e6, idle=None, at_most=10.0), 2, emit=Emit(every=4.0))
    for offset, key in enumerate((b"a", b"b", b"c", b"a")):
        partition.take(offset, [Step(1.0 + offset, key, 0, 1)])
        partition.commit(1.0 + offset, offset + 1)
    partition.look(6.0)
    partition.look(11.5)
    partition.commit(11.5, 4)
    assert [result.key for result in partition.results if result.closed_by == "at_most"] == [b"a"]
    assert sorted(result.key for result in partition.results if not result.closed_by) == [b"a", b"b", b"c"]


def turned_one_by_one(partition: PagedTurned, *steps: Step) -> PagedTurned:
    for offset, step in enumerate(steps):
        partition.take(offset, [step])
        partition.expire(step.now)
        partition.commit(step.now, offset + 1)
    return partition


def test_the_open_group_whose_window_closes_first_makes_room_beside_groups_that_stay_after_their_results() -> None:
    """Those of earlier windows, and one that ended by at_most in the same window."""
    amend = Window(5.0, grace=5.0, idle=None, at_most=None, late="amend", keep=100.0, gather=1.0)
    log = [(b"a", 0), (b"b", 0), (b"c", 6000), (b"d", 11000), (b"d", 11000), (b"d", 11000), (b"e", 11500)]
    steps = [Step(10.0, key, time, 1) for key, time in log]
    partition = turned_one_by_one(PagedTurned(amend, 1, max_groups=4, on_full="fire-oldest"), *steps)
    assert [(result.key, result.reason) for result in partition.results[2:]] == [(b"c", "limit")]

    aged = replace(amend, grace=1e6, at_most=10.0)
    log = [(b"a", 0), (b"b", 0), (b"c", 6000), (b"d", 11000), (b"d", 11000), (b"d", 11000), (b"e", 11500)]
    steps = [Step(1.0 if key == b"a" else 12.0, key, time, 1) for key, time in log]
    partition = turned_one_by_one(PagedTurned(aged, 1, max_groups=4, on_full="fire-oldest"), *steps)
    assert [(result.key, result.reason) for result in partition.results] == [(b"a", "window"), (b"b", "limit")]


def test_a_record_that_finds_no_room_moves_no_watermark_while_cold_groups_of_a_closed_window_wait() -> None:
    partition = PagedTurned(Window(5.0, idle=None, at_most=None), 1, max_groups=3, on_full="dead-letter")
    for offset, (key, time) in enumerate([(b"a", 0), (b"b", 0), (b"c", 0), (b"d", 5000), (b"e", 5000), (b"f", 5000)]):
        partition.take(offset, [Step(10.0, key, time)])
        partition.commit(10.0, offset + 1)
    assert (partition.groups.cold.starts, partition.groups.cold.waiting()) == ({0: 2, 5000: 2}, 2)
    partition.take(6, [Step(10.0, b"g", 6000)])
    partition.commit(10.0, 7)
    assert (partition.refused, partition.groups.event.watermark) == ([(6, "limit")], 5000)


def replace_time(step: Step, chance: random.Random) -> Step:
    """The same step, at a time around midnight."""
    return step._replace(time=82_790_000 + step.time * chance.randint(1, 40))


def test_a_compacted_log_has_the_watermark_of_the_rule_before_until_the_newest_rule_has_followed_it() -> None:
    """The commits that make its cold groups hot compact the log before the newest rule takes the watermark over."""
    partition = PagedTurned(Window(5.0, idle=None, at_most=None), 10)
    partition.take(0, [Step(10.0, b"a", 7000)])
    partition.commit(10.0, 1)
    older, newest = opened(rule_of(partition.window)), opened(rule_of(partition.window, compute=()))
    log = Changelog(newest, partition.first, generation=1, older={0: older})
    senders, blobs, keep_from = ReceivedShards("in"), list(partition.log.values()), None
    log.replay(blobs, partition.first, partition.last, senders)
    while keep_from is None:
        older.touched |= older.states
        entries, keep_from = log.entries({}, dict, 11.0)
        blobs += entries
    again = opened(rule_of(partition.window))
    kept = [blob for blob in blobs if unpacked(blob).number >= keep_from]
    Changelog(again, keep_from).replay(kept, keep_from, unpacked(kept[-1]).number, senders)
    assert (again.event.watermark, [*again.states]) == (7000, [name(5000, b"a")])
