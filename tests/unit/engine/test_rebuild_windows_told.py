"""What a rebuild of windows reads from the topics, case by case."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Window
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import drop, open_groups
from sluicegate.streams.operations.rebuilding.rebuild_plan import RebuildRange
from sluicegate.streams.windows import groups as groups_module
from sluicegate.streams.windows.groups import WindowGroups
from tests.unit.engine.driver import Driver, Log, ManualClock, header, memory
from tests.unit.engine.rebuilding import ANNE, EPOCH, PLAIN, feed_at, rebuild, state
from tests.unit.engine.scene import an_agent, totals

TUMBLING = Window(10.0, time="at", unit="s", grace=0.0, idle=None)
FIRST = EPOCH // 10 * 10  # the start of the first window, in seconds since 1970
SECOND = (FIRST + 10) * 1000


def windows(**window: Any) -> Agent:
    return an_agent(count=None, since_first=None, window=replace(TUMBLING, **window))


def at(log: Log, clock: ManualClock, *records: tuple[str, float]) -> None:
    """Records of these keys and seconds since the start of the first window, each with the amount 1."""
    for key, second in records:
        feed_at(log, clock, key, json.dumps({"amount": 1, "at": FIRST + second}).encode())


def worked(agent: Agent, store: MemoryStore, log: Log, clock: ManualClock, seconds: float = 0.5) -> Driver:
    driver = Driver(agent, store, log, clock).give(0)
    driver.producer._time = lambda: clock.now + EPOCH
    return driver.turns().later(seconds).turns().later(0.5).turns()


def watermark(agent: Agent, store: MemoryStore) -> int:
    place = Partition("app", agent.name, "in", 0)
    view = store.read(place)
    assert view is not None
    groups = contents_of(agent, place, view).groups
    assert isinstance(groups, WindowGroups)
    return groups.event.watermark


def lost(agent: Agent, log: Log, clock: ManualClock, wanted: RebuildRange = PLAIN) -> MemoryStore:
    """A store that was rebuilt."""
    store = memory(clock)
    rebuild(agent, store, log, clock, wanted)
    return store


def refusal(agent: Agent, log: Log, clock: ManualClock, wanted: RebuildRange = PLAIN) -> str:
    store = memory(clock)
    with pytest.raises(ConfigurationError) as error:
        rebuild(agent, store, log, clock, wanted)
    assert list(store.partitions("app")) == []
    return str(error.value)


def test_a_record_that_where_leaves_out_moved_the_watermark(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    agent = replace(windows(late="skip"), where="at < 1700000011 || amount > 1")
    at(log, clock, ("a", 1), ("b", 12))
    worked(agent, store, log, clock)
    assert totals(log) == [("a", "window", 1, 1)]
    after = lost(agent, log, clock)
    assert watermark(agent, after) == (FIRST + 12) * 1000
    assert state(agent, after) == (2, {})


def test_a_record_that_was_refused_after_its_time_was_read_did_not_either(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(count=None, since_first=None, window=TUMBLING, max_groups=1, on_full="dead-letter")
    at(log, clock, ("a", 1), ("b", 9))
    worked(agent, store, log, clock)
    assert [header(letter, "sluicegate-dead-reason") for letter in log.topics["dead"][0]] == ["limit"]
    assert watermark(agent, store) == watermark(agent, lost(agent, log, clock)) == (FIRST + 1) * 1000


def test_a_record_that_was_refused_before_its_time_was_read_did_not(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    at(log, clock, ("a", 1), ("b", 9000))
    worked(windows(), store, log, clock)
    assert [header(letter, "sluicegate-dead-reason") for letter in log.topics["dead"][0]] == ["time-ahead"]
    clock.now += 9000
    assert watermark(windows(), lost(windows(), log, clock)) == (FIRST + 1) * 1000


def test_a_record_is_too_far_ahead_only_if_it_is_ahead_of_the_time_now(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    ahead = windows(max_ahead=60.0)
    at(log, clock, ("a", 1065), ("b", 1500))  # it is second 1000
    clock.now += 20
    worked(ahead, store, log, clock)
    assert [header(letter, "sluicegate-dead-offset") for letter in log.topics["dead"][0]] == ["1"]
    assert watermark(ahead, lost(ahead, log, clock)) == (FIRST + 1065) * 1000
    log.topics["dead"][0].clear()
    again = lost(ahead, log, clock)
    assert watermark(ahead, again) == (FIRST + 1065) * 1000
    worked(ahead, again, log, clock)
    assert [header(letter, "sluicegate-dead-reason") for letter in log.topics["dead"][0]] == ["time-ahead"]


def test_silence_is_in_the_headers_of_the_results_and_what_follows_it_is_late(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = windows(late="skip", idle=2.0)
    at(log, clock, ("a", 1), ("a", 2))
    driver = worked(agent, store, log, clock, 20.0)
    assert totals(log) == [("a", "window", 2, 2)]
    silent = lost(agent, log, clock)
    assert watermark(agent, silent) == SECOND
    at(log, clock, ("a", 3))
    driver.turns().later(0.5).turns()
    assert totals(log) == [("a", "window", 2, 2)]
    late = lost(agent, log, clock)
    assert state(agent, late) == (3, {})
    assert watermark(agent, late) == SECOND


def test_the_offset_in_the_header_tells_what_was_read_if_the_group_of_consumers_is_gone(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = replace(windows(idle=2.0), where="amount > 0")
    at(log, clock, ("a", 1))
    feed_at(log, clock, "b", json.dumps({"amount": 0, "at": FIRST}).encode())
    worked(agent, store, log, clock, 20.0)
    log.committed.clear()
    assert state(agent, lost(agent, log, clock)) == (2, {})


def test_a_window_that_closed_and_was_not_sent_is_decided_again_with_the_same_id(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "SLICE", 1)  # windows that a record closes
    at(log, clock, ("a", 1), ("b", 2), ("c", 3), ("a", 11))
    worked(windows(), store, log, clock)
    sent = {header(message, "sluicegate-id"): message.v for message in log.topics["out"][0]}
    log.topics["out"][0] = log.topics["out"][0][:1]
    again = memory(clock)
    [planned] = rebuild(windows(), again, log, clock)
    assert [*planned.built.decided] == [1, 2]
    worked(windows(), again, log, clock)
    documents = {header(message, "sluicegate-id"): json.loads(message.v or b"") for message in log.topics["out"][0]}
    assert documents.keys() == sent.keys()
    assert [(document["key"], document["window"]["closed_by"]) for document in documents.values()] == [
        (k, "event") for k in "abc"
    ]


def test_a_window_without_a_result_before_a_later_one_of_the_same_output_partition_is_a_gap(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    at(log, clock, ("a", 1), ("a", 11))
    worked(windows(), store, log, clock)
    [second] = open_groups(store, "app", windows())
    drop(store, second, windows(), ANNE)
    at(log, clock, ("a", 21), ("a", 31))
    worked(windows(), store, log, clock)
    assert [total[:1] for total in totals(log)] == [("a",), ("a",)]
    assert "1 groups, the first at offset 1, have no result" in refusal(windows(), log, clock)
    assert state(windows(), lost(windows(), log, clock, RebuildRange(accept_gaps=True)))[0] == 4


def test_results_that_the_rule_of_today_does_not_give_are_refused(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    at(log, clock, ("a", 1), ("b", 11), ("a", 2), ("b", 31))
    worked(windows(grace=5.0), store, log, clock)
    assert ("a", "window", 2, 2) in totals(log)
    assert "have other records than the input has" in refusal(windows(), log, clock)


def test_from_a_time_on_windows_that_began_before_it_are_known_by_their_results(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    at(log, clock, ("a", 1), ("b", 1))
    clock.now += 3
    at(log, clock, ("a", 2), ("a", 11), ("a", 22))
    worked(windows(), store, log, clock)
    rest = lost(windows(), log, clock, RebuildRange(since=2))
    assert state(windows(), rest)[1].keys() == {(FIRST * 1000 + 20_000).to_bytes(8, "big") + b"a"}
    assert "late: skip" in refusal(windows(late="skip"), log, clock, RebuildRange(since=2))
