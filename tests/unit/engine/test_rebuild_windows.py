"""Windows whose store is lost at any moment, with any deaths: the rebuild continues as if nothing had happened."""

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluicegate.streams.agent import Agent, Destination, Reducer, Selected, Window
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.rebuilding.rebuild_plan import RebuildRange
from sluicegate.streams.windows.groups import WindowGroups
from tests.unit.engine.driver import header
from tests.unit.engine.rebuilding import EPOCH, PLAIN, emitted_twice, feed_at, state
from tests.unit.engine.scene import an_agent
from tests.unit.engine.test_rebuild_any import World

COMPUTE = (Reducer("total", "sum", "n"), Reducer("all", "collect", "n"))
FIELDS = ("total", "all", "window", "reason")
TUMBLING = Window(5.0, time="at", unit="ms", grace=1.0, idle=None)
HOPPING = replace(TUMBLING, size=6.0, kind="hopping", every=2.0)
SLIDING = replace(TUMBLING, size=3.0, grace=3.0, kind="sliding")
SESSION = replace(TUMBLING, size=3.0, kind="session")
BY_EVENT: dict[str, dict[str, Any]] = {
    "tumbling": {"window": TUMBLING},
    "one hot group": {"window": TUMBLING, "hot_groups": 1},
    "session": {"window": SESSION},
    "session with one hot group": {"window": SESSION, "hot_groups": 1},
    "session with count": {"window": SESSION, "count": 3},
    "session with until": {"window": SESSION, "until": "group.total >= 20"},
    "count": {"window": TUMBLING, "count": 3},
    "until": {"window": TUMBLING, "until": "group.total >= 20"},
    "where": {"window": TUMBLING},
    "skip": {"window": replace(TUMBLING, late="skip")},
    "hopping": {"window": HOPPING},
    "overlapping with count": {"window": replace(HOPPING, kind="overlapping"), "count": 3},
    "sliding": {"window": SLIDING},
    "the last records": {"window": replace(SLIDING, size=0.0, last=3)},
    "the last records in a time": {"window": replace(SLIDING, last=2)},
    "sliding, late skip": {"window": replace(SLIDING, late="skip")},
    "sliding with few items": {"window": SLIDING, "max_items": 2, "on_full": "dead-letter"},
    "having": {"window": TUMBLING},
    "routes": {"window": TUMBLING},
}
"""Only event time closes them, so the same results come with and without a loss."""
BY_THE_CLOCK: dict[str, dict[str, Any]] = {
    "idle": {"window": replace(TUMBLING, idle=3.0)},
    "idle sessions": {"window": replace(SESSION, idle=3.0)},
    "at_most": {"window": replace(TUMBLING, idle=4.0, at_most=7.0)},
    "idle sessions with one hot group": {"window": replace(SESSION, idle=3.0), "hot_groups": 1},
    "at_most of sessions with one hot group": {"window": replace(SESSION, idle=4.0, at_most=7.0), "hot_groups": 1},
    "at_most of sessions": {"window": replace(SESSION, idle=4.0, at_most=7.0)},
    "limit": {"window": replace(TUMBLING, idle=3.0), "max_items": 2},
    "refused": {"window": replace(TUMBLING, idle=3.0), "max_items": 2, "on_full": "dead-letter"},
    "left out": {"window": replace(TUMBLING, idle=3.0)},
    "late new": {"window": replace(TUMBLING, idle=3.0, late="new", gather=2.0)},
    "late new of sessions": {"window": replace(SESSION, idle=3.0, late="new", gather=2.0)},
    "late new with one hot group": {"window": replace(TUMBLING, idle=3.0, late="new", gather=2.0), "hot_groups": 1},
}
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.0, 0.0, 0.7, 2.0, 6.0, 13.0, "bad", "ahead"])),
    min_size=2,
    max_size=10,
)
STEP = st.one_of(
    st.tuples(st.just("work"), RECORDS),
    st.tuples(st.just("work unsent"), RECORDS),
    st.tuples(st.just("feed"), RECORDS),
    st.tuples(st.just("later"), st.sampled_from([0.5, 2.0, 6.0, 25.0])),
    st.tuples(st.just("die"), st.none()),
    st.tuples(st.just("unheard"), st.booleans()),
    st.tuples(st.just("lose"), st.none()),
)


class Windows(World):
    """As World; each record has a time that is some seconds behind. Without `loses` the store is never lost."""

    def __init__(self, agent: Agent, loses: bool = True) -> None:
        self.loses = loses
        super().__init__(agent)

    def feed(self, key: str, behind: Any) -> None:
        now = self.clock.now + EPOCH
        ahead = {"ahead": 4000.0}.get(behind, 0.0)
        at = round(1000 * (now + ahead - (behind if isinstance(behind, float) else 0.0)))
        value = b"{" if behind == "bad" else json.dumps({"n": self.taken, "at": at}).encode()
        feed_at(self.log, self.clock, key, value)
        self.taken += 1

    def step(self, what: str, how: Any) -> None:
        if what not in ("feed", "work", "work unsent"):
            super().step(what if self.loses or what != "lose" else "die", how)
            return
        for key, behind in how:
            self.feed(key, behind)
        super().step(what, [])

    def lose(self, wanted: RebuildRange = PLAIN) -> None:
        """What was sent before tells all: then the watermark and the open groups are what they were."""
        before = self.view()
        super().lose(wanted)
        after = self.view()
        if before is not None and after is not None:
            assert after.watermark <= before.watermark
            if before.sent and after.offset == before.offset:
                assert after == before

    def view(self) -> "View | None":
        place = Partition("app", self.agent.name, "in", 0)
        view = self.store.read(place)
        if view is None or view.claim.offset < 0:
            return None
        groups = contents_of(self.agent, place, view).groups
        assert isinstance(groups, WindowGroups)
        sent = not view.unsent and len(self.store.pending(place, 0, 1)) == 0
        return View(view.claim.offset, sent, groups.event.watermark, state(self.agent, self.store)[1])

    def settle(self) -> None:
        """A record of a key of its own closes every window of the others."""
        self.driver.producer.room = 1 << 30
        self.step("unheard", False)
        self.driver.turns(8)
        self.driver.later(60)
        self.feed("z", 0.0)
        for _ in range(4):
            self.driver.turns(4).later(1)

    def results(self) -> dict[str, Any]:
        """By id, each result once, but for what the clock says."""
        outputs: dict[str, Any] = {}
        for topic in ("out", "dead"):
            for message in self.everything(topic):
                if header(message, "sluicegate-first"):
                    document = json.loads(message.v or b"")
                    assert document["total"] == sum(document["all"])
                    window = document["window"]["start"], document["window"]["end"], document["window"].get("closed_by")
                    answer = document["key"], document["all"], document["reason"], window
                    assert outputs.setdefault(header(message, "sluicegate-id") or "", answer) == answer
        return outputs

    def refused(self) -> dict[int, str]:
        """By offset, the reasons of the records that are dead letters."""
        letters = [m for m in self.everything("dead") if not header(m, "sluicegate-first")]
        return {
            int(header(m, "sluicegate-dead-offset") or -1): header(m, "sluicegate-dead-reason") or "" for m in letters
        }


class View(NamedTuple):
    """What the store holds of the partition."""

    offset: int
    sent: bool
    watermark: int
    open: dict[bytes, Any]


def an_agent_of(rule: str) -> Agent:
    agent = an_agent(**{"count": None, "since_first": None, "compute": COMPUTE} | (BY_EVENT | BY_THE_CLOCK)[rule])
    if rule == "having":
        return replace(agent, having="count > 1")
    if rule == "routes":
        large = Destination("out", where="total > 20", select=(Selected("key"), *map(Selected, FIELDS)))
        return replace(agent, to=None, routes=(large, Destination("out")))
    return replace(agent, where="n % 3 != 1") if rule in ("where", "left out") else agent


def played(rule: str, steps: list[tuple[str, Any]], loses: bool = True) -> Windows:
    world = Windows(an_agent_of(rule), loses)
    for what, how in steps:
        world.step(what, how)
    world.step("lose", None)
    return world


def differences(rule: str, steps: list[tuple[str, Any]]) -> list[str]:
    """In what a run with losses differs from one without."""
    lost, kept = played(rule, steps), played(rule, steps, loses=False)
    for world in (lost, kept):
        world.settle()
    problems = [f"{len(twice)} ids twice" for twice in [emitted_twice(lost.everything("out"))] if twice]
    problems += ["results"] if lost.results() != kept.results() else []
    problems += ["letters"] if lost.refused() != kept.refused() else []
    problems += ["open"] if state(lost.agent, lost.store) != state(kept.agent, kept.store) else []
    return problems


BEHIND = [
    ("work", [("a", 0.0), ("a", 0.7), ("b", 0.0)]),
    ("later", 6.0),
    ("work", [("b", 0.0), ("a", 2.0), ("a", 13.0)]),
    ("lose", None),
    ("work", [("a", 6.0), ("a", 13.0), ("b", 2.0)]),
]


@pytest.mark.parametrize("rule", BY_EVENT)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=2, max_size=12))
@example(steps=BEHIND)
def test_windows_that_event_time_closes_have_the_results_that_they_have_without_a_loss(
    rule: str, steps: list[tuple[str, Any]]
) -> None:
    assert differences(rule, steps) == []


def misplaced(world: Windows) -> str:
    """What is wrong with the records; empty: each is in one result, in one open group, or a dead letter."""
    if twice := emitted_twice([*world.everything("out"), *world.everything("dead")]):
        return f"{len(twice)} ids were emitted twice"
    open_now = [number for _, _, _, values in state(world.agent, world.store)[1].values() for number in values["all"]]
    refused = world.refused()
    counted = sorted([n for _, all_of, _, _ in world.results().values() for n in all_of] + open_now + [*refused])
    taken = [n for n in range(world.taken) if not world.agent.where or n % 3 != 1 or n in refused]
    return "" if counted == taken else f"{counted} instead of {taken}, dead are {refused}"


@pytest.mark.parametrize("rule", BY_THE_CLOCK)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=2, max_size=12))
@example(steps=BEHIND)
def test_each_record_counts_once_where_the_clock_closes_windows(rule: str, steps: list[tuple[str, Any]]) -> None:
    world = played(rule, steps)
    world.settle()
    assert misplaced(world) == ""
