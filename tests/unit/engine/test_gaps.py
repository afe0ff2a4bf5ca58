"""A gap halts its partition with a named error, because going on would lose or repeat records. Others go on."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.ownership.claims import Claims
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, memory
from tests.unit.engine.scene import ManualClock, a_log, an_agent, feed, shown, totals

TWO = ("in", "other")
PLACE = Partition("app", "sums", "in", 0)
Harm = Callable[[Log, MemoryStore], None]


def retention(log: Log, store: MemoryStore) -> None:
    feed(log, *[("late", 1)] * 5)
    log.topics["in"][0] = log.topics["in"][0][-2:]
    log.low["in", 0] = log.topics["in"][0][0].o


def truncation(log: Log, store: MemoryStore) -> None:
    del log.topics["in"][0][3:]


def recreation(log: Log, store: MemoryStore) -> None:
    log.create("in", 1)
    feed(log, *[("new", 1)] * 9)


def wipe(log: Log, store: MemoryStore) -> None:
    del store._rows[PLACE]


def rewind(log: Log, store: MemoryStore) -> None:
    store._rows[PLACE] = earlier[0]


def swap(log: Log, store: MemoryStore) -> None:
    row = store._rows[PLACE]
    row.claim = type(row.claim)(
        **{name: getattr(row.claim, name) for name in row.claim.__struct_fields__} | {"incarnation": "another"}
    )


def swap_without_witness(log: Log, store: MemoryStore) -> None:
    """Kafka has forgotten what it was told: only the row itself says under which name it was made."""
    swap(log, store)
    log.committed.clear()


def missing_entry(log: Log, store: MemoryStore) -> None:
    store._rows[PLACE].entries.popitem()


earlier: list[Any] = []
HARMS: list[tuple[Harm, str]] = [
    (retention, "retention-passed"),
    (truncation, "log-truncated"),
    (recreation, "topic-recreated"),
    (wipe, "store-wiped"),
    (rewind, "store-rewound"),
    (swap, "store-swapped"),
    (missing_entry, "changelog-incomplete"),
]
UNWITNESSED: tuple[Harm, str] = (swap_without_witness, "store-swapped")


def loud(harm: Harm, code: str) -> str:
    """Empty when the harm is loud and harms nobody else; else what is wrong."""
    clock, log = ManualClock(), a_log(*TWO, "out", "dead")
    store, agent = memory(clock), an_agent(topics=TWO)
    feed(log, *[("a", 1)] * 4)
    feed(log, *[("b", 1)] * 4, topic="other")
    first = Driver(agent, store, log, clock).give(0).give(0, topic="other").turns(3)
    earlier[:] = [copy.deepcopy(store._rows[PLACE])]
    feed(log, *[("a", 1)] * 4)
    first.later(1).turns()
    harm(log, store)
    before = totals(log)
    second = Driver(agent, store, log, clock).give(0).give(0, topic="other").turns()
    feed(log, *[("a", 7)] * 6)
    feed(log, *[("b", 7)] * 6, topic="other")
    for _ in range(5):
        second.later(3).turns(4)
    reasons, partitions = shown(second)
    if partitions["in", 0] != ("halted", code) or reasons != [f"halted in/0: {code}"]:
        return f"not loud: {partitions}, {reasons}"
    if [r for r in totals(log) if r[0] != "b"] != [r for r in before if r[0] != "b"]:
        return "it went on"
    if partitions["other", 0] != ("running", None) or sum(r[2] for r in totals(log) if r[0] == "b") < 9:
        return f"it harmed another partition: {partitions['other', 0]} {totals(log)}"
    return ""


@pytest.mark.parametrize(("harm", "code"), [*HARMS, UNWITNESSED], ids=lambda case: getattr(case, "__name__", case))
def test_a_gap_halts_its_partition_loudly_and_no_other(harm: Harm, code: str) -> None:
    assert loud(harm, code) == ""


@pytest.mark.parametrize(("harm", "code"), [*HARMS[:-1], UNWITNESSED], ids=lambda case: getattr(case, "__name__", case))
def test_without_the_checks_of_a_claim_and_of_its_first_record_the_same_gap_is_silent(harm: Harm, code: str) -> None:
    with without("claim-checks,seek"):
        assert loud(harm, code) != ""


@pytest.mark.parametrize(("code", "halted"), [("truncated", "log-truncated"), ("unknown-topic", "topic-recreated")])
def test_a_gap_that_shows_while_reading_halts_the_partition(
    log: Log, clock: ManualClock, code: str, halted: str
) -> None:
    log.topics["in"].append([])
    driver = Driver(an_agent(), memory(clock), log, clock).give(0, 1).turns()
    driver.input.failed.append((("in", 0), code, "said by the broker"))
    feed(log, *[("a", 1)] * 3)
    feed(log, *[("b", 1)] * 3, number=1)
    driver.turns()
    assert shown(driver)[1] == {("in", 0): ("halted", halted), ("in", 1): ("running", None)}
    assert totals(log) == [("b", "count", 3, 3)]


@pytest.mark.parametrize(("harm", "halted"), HARMS[:2], ids=["retention", "truncation"])
def test_an_offset_that_is_out_of_range_halts_the_partition_when_the_log_itself_says_so(
    log: Log, clock: ManualClock, harm: Harm, halted: str
) -> None:
    store = memory(clock)
    feed(log, *[("a", 1)] * 4)
    driver = Driver(an_agent(), store, log, clock).give(0).turns()
    harm(log, store)
    driver.input.failed.append((("in", 0), "out-of-range", "said by the broker"))
    driver.turns(2).later(1).turns()
    assert shown(driver)[1] == {("in", 0): ("halted", halted)}


def passed_over(log: Log, clock: ManualClock, code: str) -> Driver:
    """A broker says or sends something in error, and the client goes on behind the three records that it did not
    read."""
    log.topics["in"].append([])
    feed(log, ("c", 1))
    driver = Driver(an_agent(), memory(clock), log, clock).give(0, 1).turns()
    feed(log, *[("a", number) for number in range(1, 7)])
    driver.input.positions["in", 0] += 3
    driver.input.failed.append((("in", 0), code, "said by the broker"))
    feed(log, *[("b", 1)] * 3, number=1)
    return driver.turns(2)


@pytest.mark.parametrize("code", ["out-of-range", "unread"])
def test_what_could_not_be_read_is_read_again_from_the_offset_of_the_store(
    log: Log, clock: ManualClock, code: str
) -> None:
    driver = passed_over(log, clock, code)
    assert shown(driver)[1] == {("in", 0): ("claiming", "failed"), ("in", 1): ("running", None)}
    assert shown(driver)[0] == ["waiting to claim in/0: reading at offset 1: said by the broker"]
    driver.later(1).turns()
    assert shown(driver) == ([], {("in", 0): ("running", None), ("in", 1): ("running", None)})
    assert totals(log) == [("b", "count", 3, 3), ("a", "count", 3, 6), ("a", "count", 3, 15)]


def test_without_that_it_is_passed_over(log: Log, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claims, "_failed", lambda *_: None)
    passed_over(log, clock, "unread").later(1).turns()
    assert ("a", "count", 3, 6) not in totals(log)


def test_an_error_of_a_whole_topic_halts_each_of_its_partitions(log: Log, clock: ManualClock) -> None:
    log.topics["in"].append([])
    driver = Driver(an_agent(), memory(clock), log, clock).give(0, 1).turns()
    driver.input.failed.append((("in", -1), "unknown-topic", "said without a partition"))
    driver.turns()
    assert shown(driver)[1] == {("in", 0): ("halted", "topic-recreated"), ("in", 1): ("halted", "topic-recreated")}


def test_an_error_that_is_no_gap_halts_nothing(log: Log, clock: ManualClock) -> None:
    driver = Driver(an_agent(), memory(clock), log, clock).give(0).turns()
    driver.input.failed.append((("in", 0), "unauthorized", "not allowed now"))
    feed(log, *[("a", 1)] * 3)
    driver.turns()
    assert totals(log) == [("a", "count", 3, 3)]


def added(agent: Agent, log: Log, clock: ManualClock) -> Driver:
    store = memory(clock)
    feed(log, ("a", 1))
    Driver(agent, store, log, clock).give(0).turns()
    log.topics["in"].append([])
    return Driver(agent, store, log, clock).give(0, 1).turns()


def test_partitions_added_under_open_groups_halt_when_nothing_could_ever_end_them(log: Log, clock: ManualClock) -> None:
    driver = added(an_agent(since_first=None), log, clock)
    assert shown(driver)[1] == {("in", 0): ("halted", "partitions-changed"), ("in", 1): ("running", None)}


def test_partitions_added_go_on_when_groups_end_by_a_timeout(log: Log, clock: ManualClock) -> None:
    driver = added(an_agent(), log, clock)
    driver.later(31).turns()
    assert shown(driver)[0] == []
    assert totals(log) == [("a", "timeout", 1, 1)]


def test_a_full_buffer_that_says_stop_halts_its_partition_only(log: Log, clock: ManualClock) -> None:
    log.topics["in"].append([])
    feed(log, ("a", 1), ("b", 1), ("c", 1))
    feed(log, ("d", 1), ("d", 1), ("d", 1), number=1)
    driver = Driver(an_agent(on_full="stop", max_groups=2), memory(clock), log, clock).give(0, 1).turns()
    assert shown(driver)[1] == {("in", 0): ("halted", "buffer-full"), ("in", 1): ("running", None)}
    assert totals(log) == [("d", "count", 3, 3)]


def test_a_halted_partition_is_tried_again_when_it_is_given_anew(log: Log, clock: ManualClock) -> None:
    feed(log, *[("a", 1)] * 3)
    driver = Driver(an_agent(), memory(clock), log, clock).give(0).turns()
    driver.input.failed.append((("in", 0), "truncated", "said by the broker"))
    driver.turns()
    driver.input.take(("in", 0))
    driver.turns(1)
    assert shown(driver) == ([], {})
    feed(log, *[("b", 1)] * 3)
    driver.give(0).turns()
    assert shown(driver)[1] == {("in", 0): ("running", None)}
    assert len(totals(log)) == 2


def test_facts_from_before_the_claim_make_no_gap(log: Log, clock: ManualClock) -> None:
    """The old owner reads on and commits between the new one's look at Kafka and its claim."""
    store, agent = memory(clock), an_agent(count=1)
    first = Driver(agent, store, log, clock).give(0).turns()
    second = Driver(agent, store, log, clock)
    claim = store.claim

    def slow(*args: Any) -> Any:
        store.claim = claim  # type: ignore[method-assign]
        feed(log, ("a", 1), ("b", 2))
        first.turns(2)
        return claim(*args)

    store.claim = slow  # type: ignore[method-assign]
    second.give(0).turns()
    assert shown(second)[1] == {("in", 0): ("running", None)}
    assert len(totals(log)) == 2


def test_work_of_a_newer_owner_makes_no_gap_either(log: Log, clock: ManualClock) -> None:
    """As before; and while the facts are read again, a third one claims, commits and informs."""
    store, agent = memory(clock), an_agent(count=1)
    first, second, third = (Driver(agent, store, log, clock) for _ in range(3))
    first.give(0).turns()
    claim, facts, calls = store.claim, second.input.facts, []

    def slow(*args: Any) -> Any:
        store.claim = claim  # type: ignore[method-assign]
        feed(log, ("a", 1), ("b", 2))
        first.turns(2)
        return claim(*args)

    def again(topic: str, number: int) -> Any:
        calls.append(topic)
        if len(calls) == 2:
            third.give(0).turns(2)
            feed(log, ("c", 1))
            third.later(1).turns(3)
        return facts(topic, number)

    store.claim, second.input.facts = slow, again  # type: ignore[method-assign]
    second.give(0).turns(1)
    assert shown(second)[1] == {("in", 0): ("claiming", "failed")}
    assert len(calls) == 2


def test_a_claim_that_was_fenced_while_it_restored_is_no_gap(log: Log, clock: ManualClock) -> None:
    """Somebody else claims, gets on, and drops entries that this one still wanted to read."""
    store, agent = memory(clock), an_agent()
    feed(log, ("a", 1), ("b", 1))
    Driver(agent, store, log, clock).give(0).turns()
    second, third = Driver(agent, store, log, clock), Driver(agent, store, log, clock)
    restore = store.restore

    def slow(claim: Any) -> Any:
        store.restore = restore  # type: ignore[method-assign]
        third.give(0).turns(2)
        feed(log, ("a", 1), ("c", 1))
        third.later(1).turns(3)
        store._rows[PLACE].entries.pop(min(store._rows[PLACE].entries))
        return restore(claim)

    store.restore = slow  # type: ignore[method-assign]
    second.give(0).turns(2)
    assert shown(second)[1] == {("in", 0): ("claiming", "failed")}
