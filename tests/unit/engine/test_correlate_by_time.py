"""Correlations by the times of the legs: a leg is absent when the watermark of all legs says so, and not before."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Correlation, Destination, Reducer, Window
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from sluicegate.streams.windowers import CORRELATION
from sluicegate.streams.windows import correlated
from sluicegate.streams.windows.correlated import CorrelatedByTime
from tests.unit.engine.driver import Driver, ManualClock, distinct, header
from tests.unit.engine.scene import a_log, dead

NOW = round(1_700_000_000 + ManualClock().now)
AFTER = 60
LEGS = {"order": "orders", "payment": "payments"}
TIMES = Window(AFTER, idle=30.0, at_most=600.0, kind=CORRELATION)
OWN = replace(TIMES, origins=tuple(f"{leg}/{topic}" for leg, topic in LEGS.items()))
MAIN = Agent(
    "settle",
    ("legs",),
    Aggregation(
        until="has(group.order) && has(group.payment)",
        compute=(Reducer("order", "first", "order"), Reducer("payment", "last", "payment")),
        on_missing="ignore",
        window=OWN,
        correlation=Correlation(),
    ),
    Destination("out"),
    "dead",
    receive=("legs",),
)


def leg(name: str, times: Window | None) -> Agent:
    to = Destination("legs", "raw")
    return Agent(name, (LEGS[name],), Aggregation(key="id"), to, "dead", rekeys="settle", leg=name, times=times)


class Scene:
    """One partition of each leg with a worker of its own, and the owner of the internal topic."""

    def __init__(self, clock: ManualClock, store: MemoryStore, main: Agent = MAIN) -> None:
        self.log, self.clock, self.store = a_log(*LEGS.values(), "legs", "out", "dead", partitions=1), clock, store
        assert main.aggregation is not None
        self.main, times = main, None if main.aggregation.window is None else TIMES
        self.legs = {name: Driver(leg(name, times), store, self.log, clock).give(0) for name in LEGS}
        self.owner = self.new_owner()

    def new_owner(self, main: Agent | None = None) -> Driver:
        return Driver(main or self.main, self.store, self.log, self.clock).give(0)

    def put(self, name: str, *records: tuple[str, int]) -> "Scene":
        """Key, and seconds since the test's first minute began."""
        for key, at in records:
            self.log.append(LEGS[name], 0, b"any", json.dumps({"id": key, "at": at}).encode(), at=(NOW + at) * 1000)
        return self

    def run(self, seconds: int = 3, *names: str) -> "Scene":
        """All workers, or those of these legs only, and the owner."""
        for _ in range(seconds):
            for name in names or LEGS:
                self.legs[name].turns(4)
            self.owner.turns(6)
            self.clock.now += 1
        return self

    @property
    def results(self) -> list[tuple[str, str, Any, Any, str | None]]:
        """Key, reason, the times of order and payment, and what closed the group."""
        documents = [json.loads(message.v or b"null") for message in distinct(self.log, "out")]
        at = [tuple((document.get(name) or {}).get("at") for name in LEGS) for document in documents]
        by = [document.get("window", {}).get("closed_by") for document in documents]
        return [
            (document["key"], document["reason"], *legs, by)
            for document, legs, by in zip(documents, at, by, strict=True)
        ]

    @property
    def late(self) -> list[str]:
        """Why each dead letter is late."""
        letters = distinct(self.log, "dead")
        assert {header(letter, "sluicegate-dead-reason") for letter in letters} <= {"late"}
        return [str(header(letter, "sluicegate-dead-error")) for letter in letters]


@pytest.fixture
def scene(clock: ManualClock, store: MemoryStore) -> Scene:
    return Scene(clock, store)


def test_legs_meet_and_a_leg_is_absent_when_all_legs_have_passed(scene: Scene) -> None:
    scene.put("order", ("a", 1), ("b", 2), ("z", 62), ("y", 63)).put("payment", ("a", 5)).run()
    assert scene.results == [("a", "until", 1, 5, None)]
    scene.put("payment", ("w", 62)).run()
    assert scene.results[1:] == []
    scene.put("payment", ("v", 63)).run()
    assert scene.results[1:] == [("b", "timeout", 2, None, "event")]
    assert scene.late == []


def behind(scene: Scene) -> None:
    """The worker of the payments stands still for three times `after`. Then all payments are read."""
    for at in range(0, 180, 10):
        scene.put("order", (f"o-{at}", at)).put("payment", (f"o-{at}", at + 1))
    for _ in range(180):
        scene.run(1, "order")
    assert scene.results == []
    scene.run(5)


def test_no_leg_is_absent_while_it_waits_to_be_read(scene: Scene) -> None:
    behind(scene)
    assert [(key, reason) for key, reason, *_ in scene.results] == [(f"o-{at}", "until") for at in range(0, 180, 10)]
    assert scene.late == []


def test_twin_with_the_clock_of_the_worker_legs_that_wait_are_absent(clock: ManualClock, store: MemoryStore) -> None:
    assert MAIN.aggregation is not None
    scene = Scene(clock, store, replace(MAIN, aggregation=replace(MAIN.aggregation, window=None, since_first=60.0)))
    with pytest.raises(AssertionError):
        behind(scene)
    assert {reason for _, reason, *_ in scene.results} == {"timeout"}


def test_silence_of_all_legs_says_what_is_missing(scene: Scene) -> None:
    scene.put("order", ("a", 1)).run(AFTER + 30)
    assert scene.results == []
    scene.run(4)
    assert scene.results == [("a", "timeout", 1, None, "idle")]


def test_another_owner_says_it_too(scene: Scene) -> None:
    scene.put("order", ("a", 1)).run(AFTER + 20)
    scene.owner = scene.new_owner()
    scene.run(14)
    assert scene.results == [("a", "timeout", 1, None, "idle")]


def test_whatever_holds_the_watermark_back_a_group_ends_by_at_most(scene: Scene) -> None:
    scene.put("order", ("a", 1)).run(2, "order")
    for _ in range(604):
        scene.run(1, "order")
    assert scene.results == [("a", "timeout", 1, None, "at_most")]
    scene.put("payment", ("a", 2)).run()
    assert scene.late == ["the correlation of this key has ended, and ended keys are remembered for 1 h"]


def test_a_record_at_the_very_end_is_in_time_and_the_next_millisecond_is_late(scene: Scene) -> None:
    scene.put("order", ("a", 1), ("b", 1)).run().put("payment", ("a", 61)).run()
    assert scene.results == [("a", "until", 1, 61, None)]
    scene.put("payment", ("b", 62)).run()
    assert scene.late == ["its time is 1 s too far from the other records of its key; a longer `timeout` takes both"]
    scene.put("order", ("z", 90)).run()
    assert scene.results[1:] == [("b", "timeout", 1, None, "event")]


def test_how_far_legs_may_be_apart_does_not_depend_on_which_is_read_first(scene: Scene) -> None:
    scene.put("payment", ("a", 62)).run().put("order", ("a", 1)).run()
    assert scene.results == []
    assert scene.late == ["its time is 1 s too far from the other records of its key; a longer `timeout` takes both"]


def test_an_earlier_record_makes_its_group_end_earlier(scene: Scene) -> None:
    """Twin: without the new place in the heap it waits for the end that the first record had."""
    ended_early(scene)
    assert scene.results == [("a", "timeout", None, 30, "event")]


def test_twin_an_end_that_stays_where_it_was(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlated, "heappush", lambda heap, entry: None)
    ended_early(scene)
    assert scene.results == []


def ended_early(scene: Scene) -> None:
    scene.put("payment", ("b", 40), ("a", 50)).run().put("payment", ("a", 30)).run()
    scene.put("payment", ("y", 95)).put("order", ("z", 95)).run()


def test_since_last_the_end_moves_with_each_record(clock: ManualClock, store: MemoryStore) -> None:
    assert MAIN.aggregation is not None
    last = replace(MAIN.aggregation, correlation=Correlation(since="last"))
    scene = Scene(clock, store, replace(MAIN, aggregation=last))
    scene.put("order", ("a", 1), ("a", 50), ("y", 105)).put("payment", ("x", 105)).run()
    assert scene.results == []
    scene.put("payment", ("a", 110)).put("order", ("b", 106)).run()
    assert scene.results == [("a", "until", 1, 110, None)]


def test_the_first_record_of_a_key_whose_end_has_passed_is_late(scene: Scene) -> None:
    scene.put("order", ("y", 100)).put("payment", ("y", 100)).run()
    scene.put("order", ("a", 39), ("b", 40)).run()
    assert [text.partition(",")[2] for text in scene.late] == [" and the watermark is past that"]
    assert scene.results == [("y", "until", 100, 100, None)]


def test_a_record_of_an_ended_key_is_late_and_opens_no_group(scene: Scene) -> None:
    scene.put("order", ("a", 1)).put("payment", ("a", 1)).run()
    scene.put("order", ("a", 2)).put("payment", ("a", 3)).run()
    assert len(scene.results) == 1
    assert len(scene.late) == 2


def test_late_legs_are_counted(clock: ManualClock, store: MemoryStore) -> None:
    assert MAIN.aggregation is not None
    skipping = replace(MAIN.aggregation, correlation=Correlation(late="skip"))
    scene = Scene(clock, store, replace(MAIN, aggregation=skipping))
    scene.put("order", ("a", 1)).put("payment", ("a", 1)).run()
    scene.put("order", ("a", 2)).put("payment", ("a", 3)).run()
    assert dead(scene.log) == []
    counted = [{name: value for name, _, value in report.metrics} for report in scene.owner.reports]
    assert max(record.get("legs_late", 0) for record in counted) == 2


def test_a_longer_time_holds_for_open_groups(scene: Scene) -> None:
    scene.put("order", ("a", 1)).put("payment", ("y", 1)).run()
    assert MAIN.aggregation is not None
    longer = replace(MAIN.aggregation, window=replace(OWN, size=100.0))
    scene.owner = scene.new_owner(replace(MAIN, aggregation=longer))
    scene.put("order", ("z", 70)).put("payment", ("x", 70)).run()
    assert [key for key, *_ in scene.results] == []
    scene.put("payment", ("a", 90)).run()
    assert scene.results == [("a", "until", 1, 90, None)]


def test_why_says_what_is_missing_and_what_holds_it_back(scene: Scene) -> None:
    scene.put("order", ("a", 1), ("b", 30)).run()
    [group] = open_groups(scene.store, "app", MAIN, b"a")
    text = why(group, MAIN)
    assert text.startswith("has order, no payment, ends at has(order) && has(payment), ")
    assert "closes when the watermark reaches 2023-11-14T22:31:01.001Z" in text
    assert "held back by payments/0 (payment said at" in text


def test_a_group_that_the_watermark_has_ended_takes_no_record_of_the_same_batch(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so many groups end at once, and the others wait for the next turn."""
    in_one_batch(scene, monkeypatch)
    assert {reason for _, reason, *_ in scene.results} == {"timeout"}
    assert len(scene.late) == 3


def in_one_batch(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.streams.windows.groups.SLICE", 1)
    names = [f"k-{number}" for number in range(4)]
    scene.put("order", *((name, 1) for name in names)).run()
    scene.put("order", ("z", 200)).put("payment", ("y", 200), *((name, 2) for name in names[1:])).run()


def test_twin_without_it_they_would_be_complete(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CorrelatedByTime, "_open_at_watermark", lambda self, group, now: self.states.get(group))
    in_one_batch(scene, monkeypatch)
    assert "until" in {reason for _, reason, *_ in scene.results}
