"""Correlations that are rows of the store, by both clocks: a leg finds its group, an absent leg is noticed, an ended
key stays ended, and a person sees and changes all of them."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Correlation
from sluicegate.streams.aggregation.durable.alarms import is_alarm
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.correlation.groups import CorrelatedGroups
from sluicegate.streams.operations.accepting import accept
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.open_groups import drop, fire, open_groups, why
from sluicegate.streams.ownership import paged
from tests.unit.engine import test_correlate
from tests.unit.engine.cold_scene import ANNE, KEYS
from tests.unit.engine.driver import Driver, ManualClock, distinct, memory
from tests.unit.engine.rebuilding import rebuild
from tests.unit.engine.test_correlate_by_time import AFTER, MAIN, OWN, Scene
from tests.unit.engine.test_rebuild_correlations import contents

PLACE = Partition("app", "settle", "legs", 0)
CLOCKS = ["event", "wall"]
LONG = 600.0


def main_of(clock: str, **more: Any) -> Agent:
    """With the worker's clock a group lasts for ten minutes."""
    assert MAIN.aggregation is not None
    ends = {} if clock == "event" else {"window": None, "since_first": LONG}
    return replace(MAIN, aggregation=replace(MAIN.aggregation, **{"hot_groups": 4, **ends, **more}))


class ColdScene(Scene):
    """The order of number N came N seconds after the test's first minute. No payment came."""

    def __init__(self, clock: str, **more: Any) -> None:
        time = ManualClock()
        super().__init__(time, memory(time), main_of(clock, **more))
        for at, key in enumerate(KEYS):
            self.put("order", (key, at)).run(1)

    @property
    def rows(self) -> list[str]:
        """The keys of the rows of groups. They begin with a mark and a number if groups end by event time."""
        rows = [row.key for row in self.store.keys(PLACE, None, 200) if not is_alarm(row.key)]
        return sorted(key[-len(KEYS[0]) :].decode() for key in rows)

    @property
    def groups(self) -> Any:
        return self.owner.worker._owners["legs", 0].groups.newest

    @property
    def open(self) -> list[str]:
        return sorted(group.key.decode() for group in open_groups(self.store, "app", self.main))

    def group(self, key: str) -> Any:
        [group] = open_groups(self.store, "app", self.main, key.encode())
        return group

    def claimed_again(self) -> "ColdScene":
        self.owner = self.new_owner()
        self.run(2)
        return self


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_takeover_reads_the_hot_groups_alone(clock: str) -> None:
    scene = ColdScene(clock).claimed_again()
    assert (sorted(map(key_of(clock), scene.groups.states)), scene.rows) == (KEYS[16:], KEYS[:16])
    assert scene.groups.cold.count == 16


def key_of(clock: str) -> Any:
    return lambda name: name[-len(KEYS[0]) :].decode()


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_leg_finds_its_cold_group_and_the_key_stays_ended(clock: str) -> None:
    scene = ColdScene(clock)
    scene.put("payment", *[(key, 30) for key in KEYS[:5]]).run()
    assert scene.results == [(key, "until", at, 30, None) for at, key in enumerate(KEYS[:5])]
    assert scene.rows == KEYS[5:16]
    scene.claimed_again()
    scene.put("payment", *[(key, 31) for key in KEYS[:7]]).run()
    assert len(scene.results) == 7
    assert len(scene.late) == 5
    assert scene.open == KEYS[7:]


def test_the_watermark_of_all_legs_says_which_legs_of_cold_groups_are_absent() -> None:
    scene = ColdScene("event")
    scene.put("order", ("y", 100)).put("payment", (KEYS[3], 50), ("z", AFTER + 10)).run(4)
    ended = [(key, "timeout", at, None, "event") for at, key in enumerate(KEYS[:10])]
    assert (scene.results[0], scene.results[1:]) == ((KEYS[3], "until", 3, 50, None), [*ended[:3], *ended[4:]])
    scene.put("payment", (KEYS[0], 70)).run()
    assert scene.late == ["the correlation of this key has ended, and ended keys are remembered for 1 h"]
    scene.put("payment", ("w", 100)).run(4)
    assert (len(scene.results), scene.open) == (20, ["w", "y", "z"])


def test_an_earlier_record_makes_a_cold_group_end_earlier() -> None:
    scene = ColdScene("event")
    scene.put("payment", ("z", 12)).put("order", (KEYS[5], 2)).run()
    for second in range(2):
        scene.put("order", *[(f"y-{second}-{at}", 40) for at in range(6)]).run(1)
    assert KEYS[5] in scene.rows
    scene.put("order", ("x", 62)).put("payment", ("w", 62)).run()
    assert [key for key, *_ in scene.results] == [KEYS[0], KEYS[1]]
    scene.put("order", ("v", 63)).put("payment", ("u", 63)).run()
    assert [key for key, *_ in scene.results] == [KEYS[0], KEYS[1], KEYS[2], KEYS[5]]


def test_cold_groups_end_by_the_clock_of_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged, "DUE", 3)
    scene = ColdScene("wall").claimed_again()
    scene.clock.now += LONG - 30
    scene.run(60)
    assert [result[:2] for result in scene.results] == [(key, "timeout") for key in KEYS]
    assert (scene.open, scene.rows) == ([], [])
    scene.put("payment", *[(key, 12) for key in KEYS]).run()
    assert (len(scene.results), len(scene.late)) == (20, 20)


def waits(clock: str) -> ColdScene:
    """The payments of all groups are in the log when the next owner claims. The deadlines have passed by then."""
    scene = ColdScene(clock)
    scene.put("payment", *[(key, 30) for key in KEYS])
    scene.legs["payment"].turns(8)
    scene.clock.now += LONG + 30
    return scene.claimed_again()


def test_no_leg_of_a_cold_group_is_absent_while_it_waits_to_be_read() -> None:
    scene = waits("wall")
    assert {reason for _, reason, *_ in scene.results} == {"until"}
    assert (len(scene.results), scene.late) == (20, [])


def test_twin_cold_groups_that_end_before_what_waits_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CorrelatedGroups, "obeys_clock", lambda self: True)
    assert {reason for _, reason, *_ in waits("wall").results} != {"until"}


def test_cold_groups_end_at_most_then() -> None:
    scene = ColdScene("event", window=replace(OWN, at_most=100.0))
    for _ in range(110):
        scene.run(1, "order")
    assert sorted(scene.results) == [(key, "timeout", at, None, "at_most") for at, key in enumerate(KEYS)]
    assert scene.store.keys(PLACE, None, 100) == []


def test_silence_says_which_legs_of_cold_groups_are_absent() -> None:
    scene = ColdScene("event").claimed_again()
    scene.run(AFTER + 60)
    assert scene.results == [(key, "timeout", at, None, "idle") for at, key in enumerate(KEYS)]
    assert scene.store.keys(PLACE, None, 100) == []


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_correlations_with_cold_groups_are_those_of_the_oracle(first: int) -> None:
    assert test_correlate.AGENT.aggregation is not None
    agent = replace(test_correlate.AGENT, aggregation=replace(test_correlate.AGENT.aggregation, hot_groups=1))
    for seed in range(first, first + 50):
        wanted, results = test_correlate.history(seed, agent)
        assert test_correlate.normal(results) == test_correlate.normal(wanted), seed


# -- what a person sees and changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", CLOCKS)
def test_all_groups_are_listed_and_one_is_explained(clock: str) -> None:
    scene = ColdScene(clock)
    assert scene.open == KEYS
    text = why(scene.group(KEYS[2]), scene.main)
    assert text.startswith("has order, no payment, ends at has(order) && has(payment), ")
    assert clock == "wall" or "held back by payments/0" in text


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("key", [KEYS[2], KEYS[19]])
def test_a_person_fires_a_group_and_its_key_has_ended(clock: str, key: str) -> None:
    scene = ColdScene(clock)
    fire(scene.store, scene.group(key), ANNE)
    scene.claimed_again()
    assert [result[:2] for result in scene.results] == [(key, "manual")]
    scene.put("payment", (key, 30)).run()
    assert (len(scene.late), len(scene.open)) == (1, 19)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("key", [KEYS[2], KEYS[19]])
def test_a_person_drops_a_group_and_a_later_record_opens_another(clock: str, key: str) -> None:
    scene = ColdScene(clock)
    drop(scene.store, scene.group(key), scene.main, ANNE)
    assert scene.open == [other for other in KEYS if other != key]
    scene.claimed_again()
    scene.put("payment", (key, 30)).run()
    assert (scene.results, scene.late, scene.open) == ([], [], KEYS)
    assert why(scene.group(key), scene.main).startswith("has payment, no order")


@pytest.mark.parametrize("clock", CLOCKS)
def test_an_accepted_gap_forgets_cold_groups_whose_offsets_come_again(clock: str) -> None:
    scene = ColdScene(clock)
    [offset] = [group.first for group in open_groups(scene.store, "app", scene.main, KEYS[8].encode())]
    del scene.log.topics["legs"][0][offset:]
    gap = accept(scene.store, scene.main, PLACE, lambda: scene.owner.input.facts("legs", 0), ANNE, forget=True)
    assert gap is not None
    assert scene.open == KEYS[:8]
    assert contents_of(scene.main, PLACE, scene.store.read(PLACE)).groups.cold.count == len(scene.rows) == 8  # type: ignore


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_rebuilt_store_has_the_same_groups_and_ended_keys(clock: str) -> None:
    """The rebuilt groups are in memory; the next owner moves them to the store."""
    scene = ColdScene(clock)
    scene.put("payment", *[(key, 30) for key in KEYS[:5]]).run()
    lost = memory(scene.clock)
    rebuild(scene.main, lost, scene.log, scene.clock)
    whole, before = contents(scene.main, lost, 0), contents(scene.main, scene.store, 0)
    assert len(whole[1]) == 15
    assert whole[1].items() >= before[1].items()
    assert (whole[0], whole[2:]) == (before[0], before[2:])


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("policy", ["flush", "drop"])
def test_cold_groups_go_with_the_others_when_the_rule_changes(clock: str, policy: str) -> None:
    scene = ColdScene(clock)
    assert scene.main.aggregation is not None
    [order, payment] = scene.main.aggregation.compute
    changed = replace(scene.main.aggregation, compute=(replace(order, kind="last"), payment))
    agent = replace(scene.main, aggregation=changed)
    scene.owner = Driver(agent, scene.store, scene.log, scene.clock, on_rule_change=policy).give(0)
    scene.run()
    assert scene.rows == []
    assert [reason for _, reason, *_ in scene.results] == (["manual"] * 20 if policy == "flush" else [])


@pytest.mark.parametrize(
    ("after", "since", "to", "ended"),
    [(30.0, "first", 41, 11), (100.0, "first", 71, 0), (30.0, "last", 41, 8), (AFTER, "first", 71, 11)],
)
def test_another_time_counts_for_cold_groups(after: float, since: Any, to: int, ended: int) -> None:
    """The order of each fifth key was written again, 20 s later. The time counted from the last record."""
    scene = ColdScene("event", correlation=Correlation(since="last"))
    scene.put("order", *[(key, at + 20) for at, key in enumerate(KEYS) if not at % 5]).run(4)
    for at, key in [*enumerate(KEYS)][16:]:
        scene.put("order", (key, at)).run(1)
    assert scene.rows == KEYS[:16]
    agent = main_of("event", window=replace(OWN, size=after), correlation=Correlation(since=since))
    scene.owner = scene.new_owner(agent)
    scene.run(2)
    assert scene.results == []
    scene.put("order", ("x", to)).put("payment", ("w", to)).run()
    assert len(scene.results) == ended


def test_rows_that_are_missing_halt_the_partition() -> None:
    scene = ColdScene("event")
    claim = scene.store.read(PLACE).claim  # type: ignore[union-attr]
    gone = [row.key for row in scene.store.keys(PLACE, None, 100)]
    scene.store.commit(claim, Changes(claim.offset, claim.epoch, drop_cold=gone))
    scene.claimed_again()
    scene.run(AFTER + 60)
    report = scene.owner.worker.reports.of(scene.clock.now)
    assert [partition.error for partition in report.partitions] == ["changelog-incomplete"]


def test_a_group_whose_alarm_has_too_long_a_key_stays_in_memory() -> None:
    scene = ColdScene("event")
    long, longer = "a" * 494, "b" * 495
    scene.put("order", (longer, 20), (long, 20)).run()
    for at in range(5):
        scene.put("order", (f"other-{at}", 21)).run(1)
    keys = [row.key for row in scene.store.keys(PLACE, None, 200)]
    assert max(map(len, keys)) == 512
    assert not any(longer.encode() in key for key in keys)
    assert len(distinct(scene.log, "out")) == 0
