"""Any input, any deaths and deadlines, any moment at which the store is lost: what is rebuilt goes on as if nothing had
been."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluicegate.streams.agent import Agent, Reducer, Until
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.rebuilding.rebuild_plan import RebuildRange
from tests.unit.engine.driver import Driver, LogRecord, ManualClock, header, memory
from tests.unit.engine.rebuilding import EPOCH, PLAIN, emitted_twice, feed_at, rebuild, state
from tests.unit.engine.scene import a_log, an_agent

COMPUTE = (Reducer("total", "sum", "n"), Reducer("all", "collect", "n"))
RULES: dict[str, dict[str, Any]] = {
    "count": {"count": 3, "since_first": None},
    "timeout": {"count": 4, "since_first": 20.0},
    "one hot group": {"count": 4, "since_first": 20.0, "hot_groups": 1},
    "idle": {"count": None, "since_last": 15.0, "since_first": None},
    "until": {"count": 5, "since_first": 40.0, "until": Until("end", True)},
    "expression": {"count": None, "since_first": 40.0, "until": "end || group.total >= 40 && group.count > 2"},
    "limit": {"count": None, "since_first": 60.0, "max_items": 3},
    "letters": {"count": 3, "since_first": 20.0, "on_timeout": "dead-letter"},
}
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["", "", "", "end", "bad"])), min_size=4, max_size=15
)
STEP = st.one_of(
    st.tuples(st.just("work"), RECORDS),
    st.tuples(st.just("work unsent"), RECORDS),
    st.tuples(st.just("feed"), RECORDS),
    st.tuples(st.just("later"), st.sampled_from([0.5, 7.0, 25.0])),
    st.tuples(st.just("die"), st.none()),
    st.tuples(st.just("unheard"), st.booleans()),
    st.tuples(st.just("lose"), st.none()),
)


class World:
    """An agent over a log, on stores that get lost; `taken` numbers its records."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.clock, self.log = agent, ManualClock(), a_log()
        self.store = memory(self.clock)
        self.taken = 0
        self.gone: dict[str, list[LogRecord]] = {"in": [], "out": [], "dead": []}
        self.start()

    def start(self) -> None:
        self.driver = Driver(self.agent, self.store, self.log, self.clock).give(0)
        self.driver.producer._time = lambda: self.clock.now + EPOCH

    def everything(self, topic: str) -> list[LogRecord]:
        """What was ever in the topic."""
        return [*self.gone[topic], *self.log.topics[topic][0]]

    def forget(self, topic: str, seconds: float) -> None:
        """Retention takes what is older; of the input only what was committed."""
        oldest, messages = (self.clock.now + EPOCH - seconds) * 1000, self.log.topics[topic][0]
        read = state(self.agent, self.store)[0] if topic == "in" else len(messages) + len(self.gone[topic])
        kept = [m for m in messages if m.at > oldest or m.o >= read]
        self.gone[topic] += messages[: len(messages) - len(kept)]
        self.log.topics[topic][0] = kept
        self.log.low[topic, 0] = kept[0].o if kept else len(self.gone[topic])

    def step(self, what: str, how: Any) -> None:
        if what in ("feed", "work", "work unsent"):
            for key, kind in how:
                value = b"{" if kind == "bad" else json.dumps({"n": self.taken, "end": kind == "end"}).encode()
                feed_at(self.log, self.clock, key, value)
                self.taken += 1
            self.driver.producer.room = 0 if what == "work unsent" else 1 << 30
            self.driver.later(0.3).turns(0 if what == "feed" else 4)
        elif what == "later":
            self.driver.later(how).turns(2)
        elif what == "die":
            self.start()
        elif what == "unheard":
            self.driver.producer.hold = how
        else:
            self.lose()

    def lose(self, wanted: RebuildRange = PLAIN) -> None:
        self.store = memory(self.clock)
        rebuild(self.agent, self.store, self.log, self.clock, wanted)
        before = snapshot(self)
        assert rebuild(self.agent, self.store, self.log, self.clock) == [] or before is None
        assert snapshot(self) == before
        self.start()

    def finish(self) -> None:
        """Everything is read, sent and, where there is a timeout, ended."""
        self.driver.producer.room = 1 << 30
        self.step("unheard", False)
        self.driver.turns(8)
        for _ in range(4):
            self.driver.later(100).turns(4)


def snapshot(world: World) -> Any:
    partitions = world.store.partitions("app")
    return [(world.store.read(p).claim, world.store.read(p).entries) for p in partitions] or None  # type: ignore[union-attr]


def grouped(world: World) -> dict[str, list[list[int]]]:
    """By key the records of each result, each result once, in the order of their records."""
    numbers: dict[str, dict[str, list[int]]] = {}
    for topic in ("out", "dead"):
        for m in world.everything(topic):
            if header(m, "sluicegate-first"):
                document = json.loads(m.v or b"")
                assert document["total"] == sum(document["all"])
                numbers.setdefault(document["key"], {})[header(m, "sluicegate-id") or ""] = document["all"]
    return {key: sorted(results.values()) for key, results in numbers.items()}


def judged(world: World) -> str:
    """What is wrong in the end; empty: nothing."""
    if twice := emitted_twice([*world.everything("out"), *world.everything("dead")]):
        return f"{len(twice)} ids were emitted twice"
    sent = [
        json.loads(m.v or b"") | {"key": (m.k or b"").decode(), "at": m.o}
        for m in world.everything("in")
        if m.v != b"{"
    ]
    letters = [m for m in world.everything("dead") if not header(m, "sluicegate-first")]
    refused = sorted({int(header(m, "sluicegate-dead-offset") or -1) for m in letters})
    bad = [m.o for m in world.everything("in") if m.v == b"{"]
    if refused != bad:
        return f"dead letters of {refused} instead of {bad}"
    results = grouped(world)
    _, still = state(world.agent, world.store)
    for key in {message["key"] for message in sent}:
        mine = [message["n"] for message in sent if message["key"] == key]
        ended = [n for result in results.get(key, []) for n in result]
        rest = still[key.encode()][3]["all"] if key.encode() in still else []
        if ended + rest != mine:
            return f"{key}: {ended} and {rest} instead of {mine}"
    return ""


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=2, max_size=15))
def test_whenever_the_store_is_lost_each_record_counts_once_and_no_id_is_emitted_twice(
    rule: str, steps: list[tuple[str, Any]]
) -> None:
    world = World(an_agent(compute=COMPUTE, **RULES[rule]))
    for what, how in steps:
        world.step(what, how)
    world.step("lose", None)
    world.finish()
    assert judged(world) == ""


FOUR = ("work", [("a", "")] * 4)
KEPT = st.sampled_from([0.0, 2.0, 5.0, 12.0, 30.0, 1000.0])


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=4, max_size=15), kept=st.tuples(KEPT, KEPT, KEPT))
# a dead letter is there, and a later result is not
@example(steps=[FOUR, FOUR, ("later", 25.0), FOUR], kept=(30.0, 0.0, 2.0))
def test_what_retention_took_is_not_needed_or_the_rebuild_is_refused(
    rule: str, steps: list[tuple[str, Any]], kept: tuple[float, float, float]
) -> None:
    world = World(an_agent(compute=COMPUTE, **RULES[rule]))
    for what, how in steps:
        if what != "lose":
            world.step(what, how)
    world.driver.later(0.5).turns()  # the group's offset is newer than what goes
    for topic, seconds in zip(("in", "out", "dead"), kept, strict=True):
        world.forget(topic, seconds)
    try:
        world.lose()
    except ConfigurationError:
        return
    world.finish()
    assert judged(world) == ""


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "count"])
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    early=st.lists(STEP, max_size=6), steps=st.lists(STEP, min_size=1, max_size=10), kept=st.tuples(KEPT, KEPT, KEPT)
)
def test_from_a_quiet_moment_on_nothing_before_it_is_needed(
    rule: str, early: list[tuple[str, Any]], steps: list[tuple[str, Any]], kept: tuple[float, float, float]
) -> None:
    world = World(an_agent(compute=COMPUTE, **RULES[rule]))
    for what, how in early:
        world.step(what, how)
    world.finish()
    moment = world.clock.now
    world.driver.later(1)
    for what, how in steps:
        if what != "lose":
            world.step(what, how)
    world.driver.later(0.5).turns()
    for topic, seconds in zip(("in", "out", "dead"), kept, strict=True):
        world.forget(topic, max(seconds, world.clock.now - moment))
    world.lose(RebuildRange(since_time=moment + EPOCH))
    world.finish()
    assert judged(world) == ""
