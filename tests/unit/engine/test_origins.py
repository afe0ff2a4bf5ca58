"""Windows over a re-keyed topic: the watermark is the least over the input partitions, as their time marks tell."""

import json
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Aggregation, Destination, Window
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.aggregation.durable.entry import unpacked
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.handlers import rekey
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from sluicegate.streams.reading.receive import ReceivedShards
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows import placing
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.marks import Stamp
from sluicegate.streams.windows.merged import FRESH, MergedClock, beat
from sluicegate.streams.windows.origins import OriginGroups
from tests.unit.engine.driver import Driver, ManualClock, distinct, header
from tests.unit.engine.scene import COMPUTE, a_log, dead

NOW = round(1_700_000_000 + ManualClock().now)
WINDOW = Window(60.0, idle=30.0, at_most=600.0)
FIRST = Agent(
    "a.repartition", ("in",), Aggregation(key="c"), Destination("keyed", "raw"), "dead", rekeys="a", times=WINDOW
)
OWN = replace(WINDOW, origins=("a.repartition/in",))
SECOND = Agent(
    "a", ("keyed",), Aggregation(compute=COMPUTE, window=OWN), Destination("out"), "dead", receive=("keyed",)
)


class Scene:
    """Two input partitions, each with a re-keying worker of its own, and the owner of the re-keyed partitions."""

    def __init__(self, clock: ManualClock, store: MemoryStore, first: Agent = FIRST, second: Agent = SECOND) -> None:
        self.log, self.clock, self.store = a_log("in", "keyed", "out", "dead", partitions=2), clock, store
        self.firsts = [Driver(first, store, self.log, clock).give(number) for number in (0, 1)]
        self.second = self.owner(second)

    def owner(self, agent: Agent = SECOND) -> Driver:
        return Driver(agent, self.store, self.log, self.clock).give(0, 1)

    def put(self, number: int, *records: tuple[str, int, Any]) -> None:
        """Key, seconds since the test's first minute began, amount."""
        for key, at, amount in records:
            value = json.dumps({"c": key, "amount": amount}).encode()
            self.log.append("in", number, b"any", value, at=(NOW + at) * 1000)

    def run(self, seconds: int = 3, *origins: int) -> "Scene":
        """All of them, or the re-keyers of `origins` only, and the owner."""
        for _ in range(seconds):
            for number in origins or (0, 1):
                self.firsts[number].turns(4)
            self.second.turns(6)
            self.clock.now += 1
        return self

    @property
    def results(self) -> list[tuple[str, int, Any, str | None]]:
        documents = [json.loads(message.v or b"null") for message in distinct(self.log, "out")]
        starts = [
            round(datetime.fromisoformat(document["window"]["start"]).timestamp()) - NOW for document in documents
        ]
        return [
            (r["key"], at, r["total"], r["window"].get("closed_by")) for r, at in zip(documents, starts, strict=True)
        ]

    def marks(self, number: int = 0) -> list[LogRecord]:
        return [record for record in self.log.topics["keyed"][number] if header(record, "sluicegate-state") is not None]


@pytest.fixture
def scene(clock: ManualClock, store: MemoryStore) -> Scene:
    return Scene(clock, store)


def test_a_window_closes_when_all_input_partitions_have_passed_it(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1), ("y", 61, 2))
    scene.put(1, ("x", 2, 4))
    scene.run()
    assert scene.results == []
    scene.put(1, ("x", 59, 8), ("z", 60, 16))
    scene.run()
    assert scene.results == [("x", 0, 13, "event")]
    assert dead(scene.log) == []


def stopped(scene: Scene) -> None:
    """The worker of partition 1 stands still while partition 0 goes on for ten minutes of event time."""
    for at in range(0, 600, 30):
        scene.put(0, ("x", at, 1))
        scene.put(1, ("x", at + 1, 1))
    scene.run(1, 0)
    scene.run(3, 0)
    assert scene.results == []
    scene.run(3)


def test_what_an_origin_has_not_read_yet_is_not_late(scene: Scene) -> None:
    stopped(scene)
    assert dead(scene.log) == []
    assert [total for _, _, total, _ in scene.results] == [4] * 9


def test_twin_with_the_highest_time_makes_it_late(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def advanced(self: MergedClock) -> bool:
        highest = max(time for time, _, _ in self.origins.values())
        moved, self.watermark = highest > self.watermark, max(highest, self.watermark)
        return moved

    monkeypatch.setattr(MergedClock, "_advanced", advanced)
    with pytest.raises(AssertionError):
        stopped(scene)
    scene.run(3)
    assert {reason for _, reason in dead(scene.log)} == {"late"}


def test_an_origin_that_said_nothing_holds_back_and_why_names_it(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1), ("y", 61, 2), ("z", 200, 2))
    scene.run(5, 0)
    assert scene.results == []
    [group] = list(open_groups(scene.store, "app", SECOND, b"x"))
    text = why(group, SECOND)
    assert "no record has moved the watermark yet, held back by in/1 (a.repartition has written no mark of it)" in text


def test_why_names_the_origin_with_the_least_time(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1), ("y", 61, 2))
    scene.put(1, ("x", 2, 1))
    scene.run()
    [group] = list(open_groups(scene.store, "app", SECOND, b"x"))
    assert "held back by in/1 (a.repartition said at " in why(group, SECOND)


def test_an_idle_origin_holds_nothing_back_until_it_has_a_record_again(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1))
    scene.put(1, ("x", 2, 4))
    scene.run()
    for second in range(3, 40):
        scene.put(0, ("x", second, 0))
        scene.run(1)
    scene.put(0, ("y", 61, 2))
    scene.run(14)
    assert scene.results == []  # its last word is from before the end of the window
    scene.run(18)
    assert scene.results == [("x", 0, 5, "event")]
    scene.put(1, ("y", 62, 4))
    scene.run(1, 1)
    scene.put(0, ("z", 121, 4))
    scene.run()
    assert scene.results[1:] == []
    scene.put(1, ("y", 63, 4), ("z", 130, 4))
    scene.run()
    assert scene.results[1:] == [("y", 60, 10, "event")]
    assert dead(scene.log) == []


def test_the_word_that_it_is_idle_counts_only_while_its_worker_repeats_it(scene: Scene) -> None:
    scene.run(40)
    assert {header(mark, "sluicegate-state").partition("/")[0] for mark in scene.marks()[-2:]} == {"idle"}  # type: ignore[union-attr]
    scene.put(1, ("x", 2, 4))
    for second in range(round(FRESH * beat(30.0)) + 3):
        scene.put(0, ("x", 40 + second, 1))
        scene.run(1, 0)
    before = scene.results
    scene.put(0, ("y", 300, 1), ("y", 361, 1))
    scene.run(3, 0)
    assert scene.results == before  # the record in partition 1 is unread, and its worker is down


def test_silence_of_all_origins_closes_the_last_windows_in_time(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1))
    scene.put(1, ("x", 2, 4))
    scene.run(89)  # the window is over after 60 s, and idle is 30 s
    assert scene.results == []
    scene.run(3)
    assert scene.results == [("x", 0, 5, "idle")]


def test_another_owner_closes_them_too(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1))
    scene.put(1, ("x", 2, 4))
    scene.run(80)
    scene.second = scene.owner()
    scene.run(12)
    assert scene.results == [("x", 0, 5, "idle")]


def test_silence_closes_nothing_when_the_workers_of_the_origins_are_down(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1))
    scene.put(1, ("x", 2, 4))
    scene.run(50)
    scene.put(1, ("x", 50, 8))
    for _ in range(60):
        scene.second.turns(4)
        scene.clock.now += 1
    assert scene.results == []
    scene.run(40)
    assert [total for _, _, total, _ in scene.results] == [13]
    assert dead(scene.log) == []


def known(driver: Driver) -> dict[tuple[str, int], Any]:
    """What the owners of the re-keyed partitions know of the origins."""
    owners = driver.worker._owners
    return {place: dict(owner.groups.windows.merged.origins) for place, owner in owners.items()}  # type: ignore[union-attr]


def restored(scene: Scene) -> None:
    """A new owner knows what the last one knew, and goes on with it."""
    scene.put(0, ("x", 1, 1), ("y", 61, 2))
    scene.put(1, ("x", 2, 4))
    scene.run()
    before, scene.second = known(scene.second), scene.owner()
    for _ in range(20):  # the first turns claim, and the log has nothing new
        scene.second.worker.turn()
    assert known(scene.second) == before
    scene.put(1, ("y", 60, 4))
    scene.run()
    assert scene.results == [("x", 0, 5, "event")]
    assert dead(scene.log) == []


def test_the_changelog_keeps_the_origins(scene: Scene) -> None:
    restored(scene)


def test_a_compacted_changelog_keeps_an_origin_that_changed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "SLACK", 0)
    groups, again = (WindowGroups(Rule(SECOND, codec("json")), OWN) for _ in range(2))
    log, kept, first = changelog.Changelog(groups, 1), dict[int, bytes](), 1
    assert groups.merged is not None
    assert again.merged is not None
    groups.merged.hear(Stamp("a.repartition/in/1", 5, "at-end", 1))
    for time in range(50):
        groups.merged.hear(Stamp("a.repartition/in/0", time, "at-end", time))
        blobs, keep_from = log.entries({}, dict, 1.0)
        kept |= {unpacked(blob).number: blob for blob in blobs}
        first = first if keep_from is None else keep_from
    assert first > 1
    rest = [blob for number, blob in kept.items() if number >= first]
    changelog.Changelog(again, first).replay(rest, first, max(kept), ReceivedShards("keyed"))
    assert again.merged.origins == groups.merged.origins
    assert len(again.merged.origins) == 2


def test_twin_without_them_in_the_changelog(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowGroups, "restore_origins", lambda self, origins: None)
    with pytest.raises(AssertionError):
        restored(scene)


def disordered(scene: Scene) -> list[tuple[str, str]]:
    """Partition 0 has an old record and a new one in one commit, while partition 1 is ahead."""
    scene.put(1, ("y", 200, 1))
    scene.run(5)
    for at in (1, 2):  # a mark says how far the first one is, the next mark is due a second later
        scene.put(0, ("x", at, 1))
        scene.firsts[0].turns(4)
    scene.put(0, ("x", 1, 1), ("x", 70, 1))
    scene.clock.now += 2
    scene.run(5)
    return dead(scene.log)


def test_a_mark_stands_behind_the_records_of_its_commit(scene: Scene) -> None:
    assert disordered(scene) == []


def test_twin_with_the_mark_before_its_records(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rekey, "_stands_last", lambda item: not isinstance(item, rekey.TimeMark))
    assert {reason for _, reason in disordered(scene)} == {"late"}


def left_behind(scene: Scene) -> list[str]:
    """The worker of partition 1 commits that the partition is idle, and what it sends does not arrive. A record
    follows. What the next worker sends of it, by state."""
    scene.run(28)
    first, known = scene.firsts[1], len(scene.marks())
    first.producer.room = 0
    for _ in range(16):
        first.turns(4)
        scene.clock.now += 1
    scene.put(1, ("x", 2, 4))
    Driver(FIRST, scene.store, scene.log, scene.clock).give(1).turns(12)
    return [str(header(mark, "sluicegate-state")).partition("/")[0] for mark in scene.marks()[known:]]


def test_what_a_lost_claim_knew_of_the_end_is_not_believed(scene: Scene) -> None:
    states = left_behind(scene)
    assert len(states) > 1
    assert set(states) == {"behind"}


def test_twin_that_sends_the_marks_of_its_predecessor_as_they_are(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.streams.outbox.relay.withdrawn", lambda row: row)
    assert "idle" in left_behind(scene)


class Silent:
    """The connection of one re-keying worker, which can begin to swallow all bytes without an error."""

    def __init__(self, driver: Driver) -> None:
        self.cut, self._input, self._ends = False, driver.input, dict[tuple[str, int], int]()
        self._poll, self._ended = driver.input.poll, driver.input.ended
        driver.input.poll, driver.input.ended, driver.input.look_again = self.poll, self.ended, self.look_again  # type: ignore[method-assign]
        self._held = driver.producer

    def poll(self, timeout: float) -> Any:
        if self.cut:
            return None
        for place in self._input.positions:
            self._ends[place] = self._ended(*place)
        return self._poll(timeout)

    def ended(self, topic: str, number: int) -> int:
        return self._ends.get((topic, number), -1)

    def look_again(self, topic: str, number: int) -> None:
        self._ends.pop((topic, number), None)


def cut_off(scene: Scene) -> list[tuple[str, int, Any, str | None]]:
    """Partition 1 is silent for 23 s of the 30 that make it idle, then its worker's connection is. A record of the
    first minute follows in time. Partition 0 goes on for two minutes."""
    silent = Silent(scene.firsts[1])
    scene.put(1, ("x", 2, 4))
    scene.run(25)
    silent.cut = True
    scene.put(1, ("x", 30, 8))
    for second in range(26, 120):
        scene.put(0, ("x", second, 1))
        scene.run(1)
    silent.cut = False
    scene.put(1, ("y", 119, 4))
    scene.run(5)
    return scene.results


def test_a_connection_that_goes_silent_makes_no_idle_partition(scene: Scene) -> None:
    assert cut_off(scene) == [("x", 0, 46, "event")]
    assert dead(scene.log) == []
    marks = [mark for mark in scene.marks() if str(header(mark, "sluicegate-origin")).startswith("in/1/")]
    assert {str(header(mark, "sluicegate-state")).partition("/")[0] for mark in marks} == {"behind", "at-end"}


def heard(*marks: tuple[str, int, str, int]) -> MergedClock:
    clock = MergedClock("", 30.0)
    for origin, time, state, moment in marks:
        clock.hear(Stamp(f"a/in/{origin}", time, state, moment))
    return clock


def test_an_old_word_that_an_origin_is_idle_holds_back_at_its_last_record() -> None:
    stale = round(1000 * FRESH * beat(30.0)) + 1
    assert heard(("0", 5, "idle", 10_000), ("1", 90_000, "behind", 10_000)).watermark == 10_000
    assert heard(("0", 5, "idle", 10_000), ("1", 90_000, "behind", 10_000 + stale)).watermark == 5


def test_silence_asks_whether_the_word_of_the_origins_is_fresh_and_of_before_now() -> None:
    clock, fresh = heard(("0", 5, "idle", 100_000), ("1", 7, "idle", 100_000)), FRESH * beat(30.0)
    for now, silent in ((100.0, True), (100 + fresh - 1, True), (100 + fresh + 1, False), (99 - fresh, False)):
        clock.look(now)
        assert (clock.quiet_from(30.0, 100_000) < 0) is silent
        assert clock.quiet_from(30.0, 100_001) > 0


def test_twin_that_believes_the_old_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    stands = OriginGroups.stands
    monkeypatch.setattr(
        OriginGroups, "stands", lambda self, offset, end, now, asked: stands(self, offset, end, now, now)
    )
    cut_off(scene)
    assert {reason for _, reason in dead(scene.log)} == {"late"}


def idle_and_cut_off(scene: Scene) -> list[tuple[str, str]]:
    """Partition 1 is idle, as a broker said. Then its worker's connection goes silent, and a record follows in time,
    before the window of it is over."""
    silent = Silent(scene.firsts[1])
    scene.run(45)
    silent.cut = True
    scene.put(1, ("x", 46, 8))
    scene.put(0, ("x", 46, 1))
    scene.run(15)
    scene.put(0, ("y", 61, 1))
    scene.run(3)
    silent.cut = False
    scene.run(3)
    return dead(scene.log)


def test_the_word_of_an_idle_partition_counts_up_to_its_own_time(scene: Scene) -> None:
    assert idle_and_cut_off(scene) == []


def test_twin_where_it_counts_for_ever(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = MergedClock._limits

    def unlimited(self: MergedClock) -> dict[str, int]:
        return {name: limit for name, limit in limits(self).items() if self.origins[name][1] != "idle"}

    monkeypatch.setattr(MergedClock, "_limits", unlimited)
    assert {reason for _, reason in idle_and_cut_off(scene)} == {"late"}


def test_marks_go_to_every_partition_and_at_most_once_a_second(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1))
    for _ in range(40):
        scene.put(0, ("x", 2, 1))
        scene.clock.now += 0.1
        scene.firsts[0].turns(2)
    times = [int(str(header(mark, "sluicegate-state")).partition("/")[2]) for mark in scene.marks(0)]
    assert times == [int(str(header(mark, "sluicegate-state")).partition("/")[2]) for mark in scene.marks(1)]
    assert 1 <= len(times) <= 5
    assert all(later - one >= 1000 for one, later in pairwise(times))
    assert header(scene.marks(0)[-1], "sluicegate-time") == str((NOW + 2) * 1000)


def test_without_windows_there_is_nothing_of_it(clock: ManualClock, store: MemoryStore) -> None:
    rule = Aggregation(count=2, compute=COMPUTE)
    scene = Scene(clock, store, replace(FIRST, times=None), replace(SECOND, aggregation=rule))
    scene.put(0, ("x", 1, 1), ("x", 1, 1))
    scene.run(40)
    assert scene.marks(0) == scene.marks(1) == []
    records = [item for partition in scene.log.topics["keyed"] for item in partition]
    assert {header(record, "sluicegate-time") for record in records} == {None}


def test_an_agent_that_asks_for_no_event_time_does_not_see_the_marks(clock: ManualClock, store: MemoryStore) -> None:
    rule = Aggregation(count=2, compute=COMPUTE)
    scene = Scene(clock, store, FIRST, replace(SECOND, aggregation=rule))
    scene.put(0, ("x", 1, 1), ("x", 1, 1))
    scene.run(5)
    assert scene.marks(0)
    assert len(distinct(scene.log, "out")) == 1
    assert dead(scene.log) == []


def test_a_record_that_where_leaves_out_moves_the_time_of_its_origin(clock: ManualClock, store: MemoryStore) -> None:
    scene = Scene(clock, store, replace(FIRST, where="amount > 0"))
    scene.put(0, ("x", 1, 1), ("y", 61, -1))
    scene.put(1, ("x", 2, 4), ("y", 62, -1))
    scene.run()
    assert scene.results == [("x", 0, 5, "event")]


def test_times_are_judged_where_a_record_is_read_first(clock: ManualClock, store: MemoryStore) -> None:
    scene = Scene(clock, store, replace(FIRST, times=replace(WINDOW, time="at", unit="s")))
    scene.put(0, ("x", 1, 1))
    scene.log.append("in", 0, b"k", json.dumps({"c": "x", "amount": 1, "at": NOW + 90_000}).encode())
    scene.run()
    assert sorted(dead(scene.log)) == [("0", "bad-time"), ("1", "time-ahead")]


def test_a_record_without_a_time_is_a_dead_letter(scene: Scene) -> None:
    """Written before the windows, or by somebody else."""
    scene.log.append("keyed", 0, b"x", b'{"amount": 1}')
    scene.run(2)
    assert dead(scene.log) == [("0", "no-time")]


def test_reports_say_how_far_an_origin_is(scene: Scene) -> None:
    scene.put(0, ("x", 1, 1))
    scene.run(5)
    [report] = scene.firsts[0].reports[-1].partitions
    assert 0 < report.origin_lag < 10


def test_an_origin_that_is_gone_holds_nothing_back_though_its_records_wait() -> None:
    """Its topic was taken out of `from`, or was made anew with fewer partitions."""
    clock = MergedClock("timestamp", 30.0)
    clock.restore_origins({f"a/{name}": (1_000, "behind", 1) for name in ("in/0", "in/1", "old/0")})
    clock.expect(["a/in/0"], ["a/in"])
    clock.reading = "a/old/0"
    assert not clock.read(2_000)
    assert not clock.hear(Stamp("a/old/0", 2_000, "at-end", 2))
    assert clock.hear(Stamp("a/in/0", 9_000, "at-end", 2))
    assert (clock.watermark, [*clock.origins]) == (9_000, ["a/in/0"])
    clock.reading = "a/in/1"  # added since
    assert not clock.read(3_000)
    assert [*clock.held_back_by()] == ["a/in/1"]


def test_a_record_of_an_idle_origin_holds_back_before_its_next_mark() -> None:
    clock = MergedClock("timestamp", 30.0)
    clock.expect(["a/in/0", "a/in/1"], ["a/in"])
    clock.hear(Stamp("a/in/0", 5, "idle", 1000))
    clock.hear(Stamp("a/in/1", 7, "behind", 1000))
    assert clock.watermark == 7
    clock.reading = "a/in/0"
    assert clock.read(20) is False
    clock.reading = "a/in/1"
    assert clock.read(90)
    assert clock.watermark == 20


def forged_mark(scene: Scene, time: int, moment: int, state: str = "at-end") -> list[tuple[str, int, Any, str | None]]:
    """Somebody who may write to the internal topic says that the first partition is at this time."""
    scene.put(0, ("x", 1, 1))
    scene.put(1, ("x", 2, 4))
    scene.run()
    for number in (0, 1):
        for place in (b"in/0/99", b"in/1/99"):
            headers = [("sluicegate-agent", b"a.repartition"), ("sluicegate-origin", place)]
            more = [("sluicegate-time", b"%d" % time), ("sluicegate-state", f"{state}/{moment}".encode())]
            scene.log.append("keyed", number, None, None, [*headers, *more])
    scene.run(1)
    scene.put(0, ("x", 3, 8), ("y", 61, 1))
    scene.put(1, ("x", 4, 16), ("y", 61, 1))
    scene.run()
    return scene.results


AHEAD = (NOW + 4_000) * 1000


@pytest.mark.parametrize(
    ("time", "moment", "state"),
    [(AHEAD, NOW * 1000, "at-end"), (AHEAD, NOW * 1000, "idle"), (NOW * 1000, AHEAD, "idle")],
)
def test_a_time_mark_that_is_too_far_ahead_moves_nothing(scene: Scene, time: int, moment: int, state: str) -> None:
    assert forged_mark(scene, time, moment, state) == [("x", 0, 29, "event")]
    assert dead(scene.log) == []
    assert ("headers_refused", ("ahead",), 4) in scene.second.worker._parts.meter.snapshot()


def test_twin_that_hears_any_mark_makes_all_records_late(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowGroups, "_ahead", lambda self, time, now: False)
    forged_mark(scene, AHEAD, NOW * 1000)
    assert {reason for _, reason in dead(scene.log)} == {"late"}


def stamped_ahead(scene: Scene) -> list[tuple[str, str]]:
    scene.put(0, ("x", 1, 1))
    scene.put(1, ("x", 2, 4))
    scene.run()
    headers = [("sluicegate-agent", b"a.repartition"), ("sluicegate-time", b"%d" % AHEAD)]
    for number, place in ((0, b"in/0/99"), (1, b"in/1/99")):
        scene.log.append("keyed", number, b"z", b'{"amount": 1}', [*headers, ("sluicegate-origin", place)])
    scene.run()
    return dead(scene.log)


def test_a_record_of_the_internal_topic_that_is_too_far_ahead_is_a_dead_letter(scene: Scene) -> None:
    assert {reason for _, reason in stamped_ahead(scene)} == {"time-ahead"}


def test_twin_that_takes_the_time_of_any_record(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowGroups, "_ahead", lambda self, time, now: False)
    monkeypatch.setattr(placing, "latest", lambda window, now: inf)
    assert stamped_ahead(scene) == []
