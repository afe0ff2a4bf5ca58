"""Groups whose records are read again after a deployment with the policy `rewind`, step by step: kills, deployments and
faults on the way to the offset of the change."""

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, OnError, Reducer
from sluicegate.streams.contracts.values import Changes, Claim, Partition, Source
from sluicegate.streams.ownership import checks, rereading
from sluicegate.streams.ownership.generations import Generations
from sluicegate.streams.rules import rule_of
from sluicegate.streams.rules.rewindable import why_not_rewound
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver, ManualClock, distinct, header, memory
from tests.unit.engine.scene import Killed, a_log, an_agent, dead, feed, hooked, shown, totals, until_killed

PLACE = Partition("app", "sums", "in", 0)
V1, V2, V3 = an_agent(count=3), an_agent(count=2, compute=(Reducer("total", "max", "amount"),)), an_agent(count=4)
REWOUND = (V1, "refuse"), (V2, "rewind")
Patch = pytest.MonkeyPatch


class Scene:
    """Unless other records are given, group a has the records 0 and 5, b has 4, and c has ended with 1 to 3; the offset
    of the change is 6."""

    def __init__(self, *pairs: tuple[str, Any], rule: Agent = V1) -> None:
        self.log, self.clock = a_log(), ManualClock()
        self.store = memory(self.clock)
        self.commit = self.store.commit
        feed(self.log, *(pairs or (("a", 1), ("c", 1), ("c", 1), ("c", 1), ("b", 5), ("a", 3))))
        self.worker((rule, "refuse")).turns(20)

    def worker(self, *steps: tuple[Agent, str]) -> Driver:
        """A worker under these versions, which gets one record in each second turn, so that it commits each record."""
        driver = Driver(steps[-1][0], self.store, self.log, self.clock, deployed=deployed(*steps)).give(0)
        consume, most = driver.input.consume, cycle((1, 0, 0))
        driver.input.consume = lambda *_: consume(next(most))  # type: ignore[method-assign]
        return driver

    def killed(self, when: Callable[[Changes], bool], *steps: tuple[Agent, str], before: bool = False) -> bool:
        """Whether a worker is killed before or after the first such commit."""

        def dies(claim: Claim, changes: Changes) -> None:
            if when(changes):
                raise Killed

        hooked(self.store, dies if before else None, None if before else dies)
        killed = until_killed(self.worker(*steps), 20)
        self.store.commit = self.commit  # type: ignore[method-assign]
        return killed

    def read_until(self, offset: int) -> "Scene":
        """The partition changes to version 2, and its worker is killed after a commit of this offset."""
        assert self.killed(lambda changes: changes.offset == offset, *REWOUND)
        return self

    @property
    def claim(self) -> Claim:
        view = self.store.read(PLACE)
        assert view is not None
        return view.claim

    @property
    def source(self) -> Source:
        assert self.claim.source is not None
        return self.claim.source

    def waiting(self) -> list[tuple[str, int]]:
        return [(rule.policy, rule.until) for rule in self.source.older]


@pytest.fixture
def scene() -> Scene:
    return Scene()


ENDED = [("c", "count", 3, 3)]
AGAIN = [("a", "count", 2, 3)]


def test_the_commit_that_changes_the_version_lowers_the_offset(scene: Scene) -> None:
    assert scene.claim.offset == 6
    scene.read_until(0)
    assert (scene.claim.offset, scene.source.version, scene.waiting()) == (0, 2, [("rewind", 6)])


def kills() -> list[Any]:
    """The results after a kill before and after each of the first ten commits."""
    totals_read = []
    for number in range(1, 11):
        for before in (False, True):
            scene, count = Scene(), iter(range(1, 100))
            scene.killed(lambda _: next(count) == number, *REWOUND, before=before)  # noqa: B023
            feed(scene.log, ("b", 4))
            scene.worker(*REWOUND).turns(20)
            totals_read.append((totals(scene.log), dead(scene.log)))
    return totals_read


def test_a_kill_at_any_commit_loses_and_repeats_nothing() -> None:
    assert kills() == [([*ENDED, *AGAIN, ("b", "count", 2, 5)], [])] * 20


def test_twin_a_commit_without_what_was_read_again_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(rereading, "unread", lambda state: int(state[rereading.COUNT]))
    assert kills() != [([*ENDED, *AGAIN, ("b", "count", 2, 5)], [])] * 20


def test_the_results_are_those_of_the_new_rule(scene: Scene) -> None:
    feed(scene.log, ("b", 4))
    scene.worker(*REWOUND).turns(20)
    rules = [header(message, "sluicegate-rule") for message in distinct(scene.log, "out")]
    assert rules == [rule_of(V1).short, rule_of(V2).short, rule_of(V2).short]
    assert scene.source.older == ()


def test_a_group_that_waits_does_not_time_out(scene: Scene) -> None:
    scene.read_until(2)
    scene.clock.now += 100
    driver = scene.worker(*REWOUND).turns(20)
    assert totals(scene.log) == [*ENDED, ("a", "timeout", 1, 1)]
    driver.later(100).turns()
    assert sorted(totals(scene.log)[2:]) == [("a", "timeout", 1, 3), ("b", "timeout", 1, 5)]


def killed_after_the_change(scene: Scene) -> Driver:
    """Kafka was told the offset of the change; the next worker finds a lower one in the row."""
    facts = scene.worker((V1, "refuse")).turns().input.facts("in", 0)
    scene.read_until(0)
    assert (facts.committed, scene.claim.offset) == (6, 0)
    return scene.worker(*REWOUND).turns(20)


def test_a_row_below_what_kafka_was_told_lost_no_writes(scene: Scene) -> None:
    assert shown(killed_after_the_change(scene))[0] == []
    assert totals(scene.log) == ENDED + AGAIN


def test_twin_a_row_that_is_judged_by_its_offset_alone_halts(scene: Scene, monkeypatch: Patch) -> None:
    monkeypatch.setattr(checks, "_reached", lambda claim: claim.offset)
    assert shown(killed_after_the_change(scene))[0] == ["halted in/0: store-rewound"]


def test_a_later_flush_fires_the_newest_groups_only(scene: Scene) -> None:
    scene.read_until(2)
    scene.worker(*REWOUND, (V3, "flush")).turns(20)
    assert totals(scene.log) == [*ENDED, ("a", "manual", 1, 1)]
    feed(scene.log, *(("a", number) for number in (4, 5, 6)))
    scene.worker(*REWOUND, (V3, "flush")).turns(20)
    assert totals(scene.log)[2:] == [("a", "count", 4, 18)]


def test_a_later_finish_leaves_what_waits(scene: Scene) -> None:
    scene.read_until(2)
    scene.worker(*REWOUND, (V3, "finish")).turns(20)
    assert totals(scene.log) == ENDED + AGAIN
    assert scene.source.older == ()


def test_a_later_drop_drops_what_was_not_read_again(scene: Scene) -> None:
    scene.read_until(2)
    steps = (*REWOUND, (V3, "drop"))
    assert scene.killed(lambda changes: changes.offset == 3, *steps)
    assert scene.waiting() == [("drop", 6)]
    feed(scene.log, *(("b", number) for number in (1, 2, 3, 4)))
    scene.worker(*steps).turns(20)
    assert totals(scene.log) == [*ENDED, ("b", "count", 4, 10)]
    assert scene.source.older == ()


def test_twin_a_drop_that_ends_the_filter_repeats_records(scene: Scene, monkeypatch: Patch) -> None:
    monkeypatch.setattr(Generations, "select_reread", lambda self, records: records)
    scene.read_until(2)
    feed(scene.log, *(("b", number) for number in (1, 2, 3, 4)))
    scene.worker(*REWOUND, (V3, "drop")).turns(20)
    assert ("b", "count", 4, 11) in totals(scene.log)


@pytest.mark.parametrize(
    ("gone", "why"),
    [(0, "record 5 does not continue the group of key 'a'"), (5, "1 of the group of key 'a' were not among them")],
)
def test_a_record_that_the_topic_lost_halts_the_partition(
    scene: Scene, capsys: pytest.CaptureFixture[str], gone: int, why: str
) -> None:
    scene.read_until(0)
    feed(scene.log, ("b", 4))
    del scene.log.topics["in"][0][gone]
    assert shown(scene.worker(*REWOUND).turns(20))[0] == ["halted in/0: rewind-mismatch"]
    assert why in capsys.readouterr().out


def test_a_record_that_the_group_did_not_hold_halts_the_partition(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.read_until(0)
    extra = scene.log.topics["in"][0][0]
    scene.log.topics["in"][0][2] = type(extra)("in", 0, 2, extra.k, extra.v)
    assert shown(scene.worker(*REWOUND).turns(20))[0] == ["halted in/0: rewind-mismatch"]
    assert "record 2 does not continue the group of key 'a'" in capsys.readouterr().out


def test_a_record_in_a_result_is_no_dead_letter_after_three_kills(scene: Scene) -> None:
    scene.read_until(1)
    for _ in range(3):
        assert scene.killed(lambda changes: changes.offset == 2, *REWOUND, before=True)
    scene.worker(*REWOUND).turns(20)
    assert (totals(scene.log), dead(scene.log)) == (ENDED + AGAIN, [])


def test_a_record_that_waits_is_a_dead_letter_after_three_kills(scene: Scene) -> None:
    scene.read_until(5)
    for _ in range(3):
        assert scene.killed(lambda changes: changes.offset == 6, *REWOUND, before=True)
    driver = scene.worker(*REWOUND).turns(20)
    assert (totals(scene.log), dead(scene.log)) == (ENDED, [("5", "crash")])
    assert (shown(driver)[0], scene.source.older) == ([], ())


def test_a_record_before_the_first_one_of_a_group_is_in_a_result() -> None:
    scene = Scene(("b", 5), ("a", 1), ("a", 2), ("a", 3), ("a", 4))
    scene.worker(*REWOUND).turns(20)
    feed(scene.log, ("a", 6), ("b", 1))
    scene.worker(*REWOUND).turns(20)
    assert totals(scene.log) == [("a", "count", 3, 6), ("a", "count", 2, 6), ("b", "count", 2, 5)]


def test_a_record_that_the_earlier_rule_left_out_is_passed_over() -> None:
    """The new rule would count it; it is not in a group that waits."""
    old = replace(V1, where="amount > 1")
    scene = Scene(("a", 2), ("a", 1), ("a", 3), rule=old)
    scene.worker((old, "refuse"), (V2, "rewind")).turns(20)
    assert totals(scene.log) == [("a", "count", 2, 3)]


@pytest.mark.parametrize("policy", ["stop", "wait"])
def test_a_record_that_was_refused_does_not_stop_the_partition(policy: Any) -> None:
    """It is a dead letter, although on_error of the new file would not make it one."""
    scene = Scene(("a", 2))
    scene.log.append("in", 0, b"a", b"no JSON")
    feed(scene.log, ("a", 3))
    scene.worker((V1, "refuse")).turns(20)
    new = replace(V2, on_error=OnError(decode=policy))
    assert shown(scene.worker((V1, "refuse"), (new, "rewind")).turns(20))[0] == []
    assert (totals(scene.log), dead(scene.log)) == ([("a", "count", 2, 3)], [("1", "undecodable")])


def test_after_the_last_group_no_record_is_judged_under_the_earlier_rule(scene: Scene, monkeypatch: Patch) -> None:
    """A function of that rule may end the process: so dropping the groups is a way out."""
    scene.read_until(2)
    steps = (*REWOUND, (V3, "drop"))
    assert scene.killed(lambda changes: bool(changes.source and changes.source.version == 3), *steps)
    judged: list[int] = []
    monkeypatch.setattr(rereading, "counted_key", lambda rule, record: judged.append(record.offset()))
    assert shown(scene.worker(*steps).turns(20))[0] == []
    assert (scene.claim.offset, judged) == (6, [])


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (V1, V2, None),
        (an_agent(dedupe="id"), V2, "with dedupe"),
        (V1, an_agent(dedupe="id"), "with dedupe"),
        (an_agent(receive=("in",)), V2, "repeats are dropped in in"),
        (an_agent(on_full="dead-letter"), V2, "only with on_full: fire-oldest"),
        (Agent("sums", ("in",), None, None, "dead"), V2, "the agent has no groups"),
    ],
)
def test_what_cannot_be_read_again(old: Agent, new: Agent, why: str | None) -> None:
    reason = why_not_rewound(old, new)
    assert reason is None if why is None else reason is not None and why in reason
