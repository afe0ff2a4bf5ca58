"""Topics that a pattern matches: they come and go while workers run and die."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.headers import NUMBER, SHARD
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.ownership.matching_topics import MatchingTopics
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, an_agent, feed, totals
from tests.unit.engine.test_origins import FIRST, OWN, SECOND, Scene

IN = "^in.*"


@pytest.fixture
def log() -> Log:
    log = a_log("in1", "out", "dead")
    feed(log, ("old", 1), topic="in1")
    return log


def started(log: Log, store: MemoryStore, clock: ManualClock, *topics: str, **wanted: object) -> Driver:
    """A worker that the group gave partition 0 of these topics."""
    driver = Driver(an_agent(topics=(IN,), **{"start": "latest", "count": 1, **wanted}), store, log, clock)
    for topic in topics:
        driver.give(0, topic=topic)
    return driver.turns()


def keys(log: Log) -> list[str]:
    return sorted(key for key, *_ in totals(log))


def appear(log: Log, topic: str = "in2") -> None:
    log.create(topic, 1)
    feed(log, ("new", 1), topic=topic)


def test_a_topic_that_appears_later_is_read_from_its_beginning(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = started(log, store, clock, "in1")
    feed(log, ("fresh", 1), topic="in1")
    appear(log)
    driver.give(0, topic="in2").turns()
    assert keys(log) == ["fresh", "new"]


def dies_before_it_sees_the_topic(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    started(log, store, clock, "in1")
    appear(log)
    started(log, store, clock, "in1", "in2")


def test_also_by_the_first_look_of_a_worker_that_was_killed_before(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    dies_before_it_sees_the_topic(log, store, clock)
    assert keys(log) == ["new"]


def test_without_the_first_topics_in_the_store_its_records_are_lost(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MatchingTopics, "_known", lambda self: {})
    monkeypatch.setattr(
        MatchingTopics, "_written", lambda self, topics: {name: tuple(topics) for name in self._patterns}
    )
    dies_before_it_sees_the_topic(log, store, clock)
    assert keys(log) == []


def test_the_first_topics_of_a_changed_pattern_begin_at_start(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    started(log, store, clock, "in1")
    log.create("other", 1)
    feed(log, ("old", 1), topic="other")
    driver = Driver(an_agent(topics=(IN, "^oth.*"), count=1, start="latest"), store, log, clock)
    driver.give(0, topic="in1").give(0, topic="other").turns()
    assert keys(log) == []


def test_the_first_topics_stay_known_when_the_file_goes_back_to_its_pattern(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    started(log, store, clock, "in1")
    Driver(an_agent(topics=("^oth.*",), start="latest"), store, log, clock).turns()
    appear(log)
    started(log, store, clock, "in1", "in2")
    assert keys(log) == ["new"]


def test_workers_that_begin_together_agree_on_the_first_topics(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    appear(log)
    agent = an_agent(topics=(IN,), count=1, start="latest")
    one, two = (Driver(agent, store, log, clock) for _ in range(2))
    one.give(0, topic="in1")
    two.give(0, topic="in2")
    for _ in range(6):
        one.turns(1)
        two.turns(1)
    assert keys(log) == ["new"]  # the first worker saw in1 only


def test_a_named_topic_begins_at_start_whenever_it_is_made(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    started(log, store, clock, "in1")
    log.create("named", 1)
    feed(log, ("old", 1), topic="named")
    driver = Driver(an_agent(topics=("named", IN), count=1, start="latest"), store, log, clock)
    driver.give(0).turns()
    assert keys(log) == []


def test_groups_of_a_topic_that_is_gone_stay_and_its_partition_has_no_owner(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = started(log, store, clock, "in1", start="earliest", count=2)
    place = Partition("app", "sums", "in1", 0)
    assert store.read(place).claim.owner == "member"
    driver.input.take(("in1", 0))
    driver.turns()
    view = store.read(place)
    assert (view.claim.owner, len(view.entries)) == ("", 1)
    driver.give(0, topic="in1").turns()
    feed(log, ("old", 2), topic="in1")
    driver.turns()
    assert totals(log) == [("old", "count", 2, 3)]


def test_also_if_the_group_knows_before_the_worker_that_the_topic_is_gone(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = started(log, store, clock, "in1", start="earliest")
    monkeypatch.setattr(driver.input, "topics", lambda: ["in1"])
    driver.input.take(("in1", 0))
    driver.turns()
    place = Partition("app", "sums", "in1", 0)
    assert store.read(place).claim.owner == "member"
    monkeypatch.undo()
    driver.turns()
    assert store.read(place).claim.owner == ""


def test_a_partition_that_another_worker_gets_keeps_its_owner(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.topics["in1"].append([])
    driver = started(log, store, clock, "in1")
    driver.give(1, topic="in1").turns()
    driver.input.take(("in1", 0))
    driver.turns()
    assert store.read(Partition("app", "sums", "in1", 0)).claim.owner == "member"


# -- windows over a re-keyed pattern -----------------------------------------------------------------------------------

REKEYS = replace(FIRST, topics=("^in.*",))
WINDOWS = replace(
    SECOND, aggregation=replace(SECOND.aggregation, window=replace(OWN, origins=("a.repartition/^in.*",)))
)


class TwoTopics(Scene):
    """As Scene, with a topic of one partition for each re-keying worker."""

    def __init__(self, clock: ManualClock, store: MemoryStore, topics: Sequence[str] = ("in0", "in1")) -> None:
        self.log, self.clock, self.store = a_log("keyed", "out", "dead", partitions=2), clock, store
        self.firsts = [self.rekeyer(topic) for topic in topics]
        self.second = self.owner(WINDOWS)

    def rekeyer(self, topic: str) -> Driver:
        self.log.create(topic, 1)
        return Driver(REKEYS, self.store, self.log, self.clock).give(0, topic=topic)

    def put(self, number: int, *records: tuple[str, int, object]) -> None:
        log, self.log = self.log, Renamed(self.log, f"in{number}")  # type: ignore[assignment]
        super().put(0, *records)
        self.log = log


class Renamed:
    """A log whose topic `in` has another name."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic

    def append(self, topic: str, *rest: object, **more: object) -> object:
        return self._log.append(self._topic, *rest, **more)  # type: ignore[arg-type]


def test_a_window_waits_for_all_topics_that_match(clock: ManualClock, store: MemoryStore) -> None:
    scene = TwoTopics(clock, store)
    scene.put(0, ("x", 1, 1), ("x", 61, 1))
    scene.run()
    assert scene.results == []
    scene.put(1, ("x", 2, 1), ("x", 62, 1))
    scene.run()
    assert scene.results == [("x", 0, 2, "event")]


def test_a_window_waits_for_a_topic_that_appeared(clock: ManualClock, store: MemoryStore) -> None:
    scene = TwoTopics(clock, store, ("in0",))
    scene.put(0, ("x", 1, 1))
    scene.run(3, 0)
    scene.firsts.append(scene.rekeyer("in1"))
    scene.put(1, ("x", 3, 1))
    scene.run()
    scene.put(0, ("x", 61, 1))
    scene.run()
    assert scene.results == []
    scene.put(1, ("x", 62, 1))
    scene.run()
    assert scene.results == [("x", 0, 2, "event")]


def test_a_window_waits_no_more_for_a_topic_that_is_gone(clock: ManualClock, store: MemoryStore) -> None:
    scene = TwoTopics(clock, store)
    scene.put(0, ("x", 1, 1))
    scene.put(1, ("x", 2, 1))
    scene.run()
    del scene.log.topics["in1"]
    scene.put(0, ("x", 61, 1))
    scene.run(3, 0)
    assert scene.results == [("x", 0, 2, "event")]


def test_agents_without_a_pattern_look_for_no_topics(clock: ManualClock, store: MemoryStore, log: Log) -> None:
    agent: Agent = an_agent(topics=("in1",))
    assert Driver(agent, store, log, clock).worker._setting.matching is None


def sent_twice(log: Log) -> None:
    again = [(SHARD, b"app/a/src/0>in1#token"), (NUMBER, b"7")]
    for _ in range(2):
        log.append("in1", 0, b"k", b'{"amount": 1}', again)


def test_repeats_of_other_apps_are_dropped_in_each_topic_that_matches(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log("in1", "out", "dead")
    sent_twice(log)
    started(log, store, clock, "in1", start="earliest", receive=(IN,))
    assert totals(log) == [("k", "count", 1, 1)]


def test_without_dedupe_they_count_twice(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log("in1", "out", "dead")
    sent_twice(log)
    started(log, store, clock, "in1", start="earliest")
    assert totals(log) == [("k", "count", 1, 1)] * 2
