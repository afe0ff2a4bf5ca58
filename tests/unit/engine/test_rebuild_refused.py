"""What cannot be rebuilt is refused before anything is written, and says what to do."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Emit, Handler, Reducer
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.groups.open_groups import drop, open_groups
from sluicegate.streams.operations.rebuilding.rebuild_plan import RebuildRange
from tests.unit.engine.driver import Driver, Log, LogRecord, ManualClock, memory
from tests.unit.engine.rebuilding import ANNE, EPOCH, PLAIN, LogHistory, feed_at, plans, rebuild, state
from tests.unit.engine.scene import an_agent, totals

FIVES = an_agent(count=5, since_first=600.0, compute=(Reducer("total", "sum", "amount"),))
ACCEPTED = RebuildRange(accept_gaps=True)


def amounts(log: Log, clock: ManualClock, keys: str) -> None:
    for key in keys:
        feed_at(log, clock, key, json.dumps({"amount": 1}).encode())


def worked(agent: Agent, store: MemoryStore, log: Log, clock: ManualClock) -> Driver:
    return Driver(agent, store, log, clock).give(0).turns().later(0.5).turns()


@pytest.fixture
def done(log: Log, store: MemoryStore, clock: ManualClock) -> Log:
    """A log of a worker that has ended two groups and holds two."""
    amounts(log, clock, "ababaababbabc")
    worked(FIVES, store, log, clock)
    assert totals(log) == [("a", "count", 5, 5), ("b", "count", 5, 5)]
    return log


def refusal(agent: Agent, log: Log, clock: ManualClock, wanted: RebuildRange = PLAIN) -> str:
    """Why, with nothing written."""
    store, committed = memory(clock), dict(log.committed)
    with pytest.raises(ConfigurationError) as error:
        rebuild(agent, store, log, clock, wanted)
    assert list(store.partitions("app")) == []
    assert log.committed == committed
    return str(error.value)


def cut(log: Log, topic: str, offset: int) -> None:
    """Retention: the topic begins there."""
    log.topics[topic][0] = [m for m in log.topics[topic][0] if m.o >= offset]
    log.low[topic, 0] = offset


def changed(log: Log, topic: str, offset: int, change: Callable[[dict[str, bytes | None]], object]) -> None:
    """The headers of a message, otherwise."""
    m = log.topics[topic][0][offset]
    headers = dict(m.h or ())
    change(headers)
    log.topics[topic][0][offset] = LogRecord(m.t, m.p, m.o, m.k, m.v, list(headers.items()), m.at)


def test_a_group_that_may_have_ended_behind_its_early_result_is_refused(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    silent = an_agent(count=None, since_last=10.0, emit=Emit(every=5.0, final=False))
    amounts(log, clock, "aaab")
    driver = Driver(silent, store, log, clock).give(0).turns().later(6.0).turns().later(20.0).turns()
    amounts(log, clock, "aab")
    driver.turns().later(0.5).turns()
    assert [message.k for message in log.topics["out"][0]] == [b"a", b"b"]
    assert "2 groups, the first at offset 3, may have ended without a result" in refusal(silent, log, clock)


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        (
            Agent("sums", ("in",), None, Destination("out"), "dead", handler=Handler(("m:f",))),
            "what its handler did is not in a topic",
        ),
        (replace(an_agent(), scope="shared"), "scope: shared"),
        (an_agent(start="latest"), "began at `latest`"),
    ],
)
def test_agents_whose_topics_do_not_tell_are_refused(done: Log, clock: ManualClock, agent: Agent, why: str) -> None:
    message = refusal(agent, done, clock)
    assert why in message
    assert "another name" in message or "--from TIME" in message


def test_a_group_with_members_is_refused(done: Log, clock: ManualClock) -> None:
    history = LogHistory(done, "app.sums")
    history.running = 2
    with pytest.raises(ConfigurationError, match="has 2 members: stop them first"):
        plans(FIVES, memory(clock), done, history=history).plan(clock.now, print)


@pytest.mark.parametrize("topic", ["in", "out", "dead"])
def test_compacted_topics_are_refused(done: Log, clock: ManualClock, topic: str) -> None:
    history = LogHistory(done, "app.sums")
    history.compact = [topic]
    with pytest.raises(ConfigurationError, match=f"records of {topic} are deleted by their key"):
        plans(FIVES, memory(clock), done, history=history).plan(clock.now, print)


@pytest.mark.parametrize(
    "gone", ["sluicegate-shard", "sluicegate-first", "sluicegate-last", "sluicegate-count", "sluicegate-seq"]
)
def test_results_without_their_headers_are_refused(done: Log, clock: ManualClock, gone: str) -> None:
    changed(done, "out", 1, lambda headers: headers.pop(gone))
    assert f"out/0/1: the message has no header {gone}" in refusal(FIVES, done, clock)


def test_messages_of_others_among_the_dead_letters_are_let_be(
    done: Log, store: MemoryStore, clock: ManualClock
) -> None:
    done.append("dead", 0, b"k", b"of another program", [("h", b"x")])
    lost = memory(clock)
    rebuild(FIVES, lost, done, clock)
    assert state(FIVES, lost) == state(FIVES, store)


def test_two_contents_of_one_result_are_refused(done: Log, clock: ManualClock) -> None:
    first = done.topics["out"][0][0]
    done.append("out", 0, first.k, first.v, list(first.h or ()))
    changed(done, "out", 2, lambda headers: headers.update({"sluicegate-count": b"4"}))
    assert "out/0/2: two results begin with record 0 of in/0 and differ" in refusal(FIVES, done, clock)


def test_a_result_of_other_records_than_the_input_has_is_refused(done: Log, clock: ManualClock) -> None:
    del done.topics["in"][0][2]
    assert "1 results, the first at offset 0, have other records than the input" in refusal(FIVES, done, clock)


def test_a_result_that_is_gone_while_a_later_one_of_its_key_is_there_is_refused_unless_gaps_are_accepted(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "a" * 12)
    worked(FIVES, store, log, clock)
    del log.topics["out"][0][0]
    assert "1 groups, the first at offset 0, have no result, though later ones are there" in refusal(FIVES, log, clock)
    lost = memory(clock)
    rebuild(FIVES, lost, log, clock, ACCEPTED)
    assert state(FIVES, lost) == state(FIVES, store)


def test_a_result_that_is_gone_while_one_that_was_sent_after_it_is_there_is_refused(
    done: Log, clock: ManualClock
) -> None:
    del done.topics["out"][0][0]
    assert "1 groups, the first at offset 0, have no result, though later ones are there" in refusal(FIVES, done, clock)
    [planned] = rebuild(FIVES, memory(clock), done, clock, ACCEPTED)
    assert planned.built.decided == {}


def test_a_group_that_somebody_dropped_is_forgotten_again_when_a_later_result_of_its_key_tells(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "aa")
    worked(FIVES, store, log, clock)
    [group] = open_groups(store, "app", FIVES)
    drop(store, group, FIVES, ANNE)
    amounts(log, clock, "a" * 6)
    worked(FIVES, store, log, clock)
    assert "the first at offset 0, have no result" in refusal(FIVES, log, clock)
    lost = memory(clock)
    rebuild(FIVES, lost, log, clock, ACCEPTED)
    assert state(FIVES, lost) == state(FIVES, store)


def test_input_that_retention_took_is_refused_until_somebody_names_a_quiet_moment(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "aaaaabbbbb")
    worked(FIVES, store, log, clock)
    clock.now += 10
    moment = clock.now + EPOCH
    amounts(log, clock, "abab")
    worked(FIVES, store, log, clock)
    cut(log, "in", 3)
    cut(log, "out", 1)
    assert "in/0 begins at 3: groups may have been open of which records are gone" in refusal(FIVES, log, clock)
    for wanted in (RebuildRange(since_time=moment), RebuildRange(since=10)):
        lost = memory(clock)
        [planned] = rebuild(FIVES, lost, log, clock, wanted)
        assert (planned.built.records, state(FIVES, lost)) == (4, state(FIVES, store))


def test_results_that_retention_took_are_refused_where_groups_may_be_theirs(done: Log, clock: ManualClock) -> None:
    cut(done, "out", 2)
    assert "5 groups or dead letters, the first at offset 0, may have been sent to topics that no longer" in refusal(
        FIVES, done, clock
    )


def test_results_that_retention_took_are_not_missed_where_later_ones_of_the_key_are_there(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "a" * 12)
    worked(FIVES, store, log, clock)
    cut(log, "out", 1)
    lost = memory(clock)
    rebuild(FIVES, lost, log, clock)
    assert state(FIVES, lost) == state(FIVES, store)


def test_records_that_were_deleted_unread_or_are_gone_after_they_were_read_are_refused(
    done: Log, clock: ManualClock
) -> None:
    high = done.high("in", 0)
    del done.topics["in"][0][-2:]
    assert f"in/0 was read to {high} and ends at {high - 2}" in refusal(FIVES, done, clock)
    done.topics["in"][0].clear()
    done.low["in", 0] = high + 3
    assert f"in/0 was read to {high} and begins at {high + 3}" in refusal(FIVES, done, clock, RebuildRange(since=0))


def test_whoever_claims_meanwhile_wins(done: Log, clock: ManualClock) -> None:
    lost = memory(clock)
    rebuilds = plans(FIVES, lost, done)
    [planned] = rebuilds.plan(clock.now + EPOCH, lambda text: None)
    commit: Any = lost.commit

    def claimed(claim: Any, changes: Any) -> Any:
        lost.claim(claim.partition, "another", "worker")
        return commit(claim, changes)

    lost.commit = claimed  # type: ignore[method-assign]
    with pytest.raises(ConfigurationError, match="in/0 was claimed by another process"):
        rebuilds.carry_out(planned, ANNE)


def test_a_state_that_came_meanwhile_is_left_alone(done: Log, clock: ManualClock) -> None:
    lost = memory(clock)
    rebuilds = plans(FIVES, lost, done)
    [planned] = rebuilds.plan(clock.now + EPOCH, lambda text: None)
    rebuild(FIVES, lost, done, clock)
    before = state(FIVES, lost)
    with pytest.raises(ConfigurationError, match="in/0 has a state meanwhile; nothing was changed there"):
        rebuilds.carry_out(planned, ANNE)
    assert state(FIVES, lost) == before


def test_an_aggregation_without_a_destination_has_its_results_among_the_dead_letters(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = Agent("sums", ("in",), Aggregation(count=2), None, "dead")
    amounts(log, clock, "aaa")
    worked(agent, store, log, clock)
    lost = memory(clock)
    [planned] = rebuild(agent, lost, log, clock)
    assert (planned.built.results, planned.built.decided, state(agent, lost)) == (1, {}, state(agent, store))


def test_an_offset_that_is_behind_is_not_believed_where_what_was_sent_last_may_be_gone(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "aaa")
    worked(FIVES, store, log, clock)
    positions = dict(log.committed)
    amounts(log, clock, "aab")
    worked(FIVES, store, log, clock)
    log.committed.update(positions)
    cut(log, "out", 1)
    assert "in/0: what was sent of records from 3 on, if anything, may have gone" in refusal(FIVES, log, clock)


def test_records_that_did_not_go_on_before_one_that_did_are_refused(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = Agent("a.repartition", ("in",), Aggregation(key="amount"), Destination("out", "raw"), "dead", rekeys="a")
    amounts(log, clock, "abc")
    worked(agent, store, log, clock)
    del log.topics["out"][0][1]
    assert "1 groups, the first at offset 1, have no result, though later ones are there" in refusal(agent, log, clock)
    cut(log, "out", 2)
    assert "2 groups or dead letters, the first at offset 0, may have been sent" in refusal(agent, log, clock)


def test_dead_letters_that_retention_took_are_refused_where_they_may_have_been_sent(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    amounts(log, clock, "a")
    feed_at(log, clock, "a", b"{")
    worked(FIVES, store, log, clock)
    cut(log, "dead", 1)
    assert "1 groups or dead letters, the first at offset 1, may have been sent" in refusal(FIVES, log, clock)


def test_groups_that_time_out_into_dead_letters_which_retention_took_are_refused(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(count=2, since_first=30.0, on_timeout="dead-letter")
    amounts(log, clock, "aaa")
    driver = worked(agent, store, log, clock)
    driver.later(60).turns().later(0.5).turns()
    assert len(log.topics["dead"][0]) == 1
    cut(log, "dead", 1)
    assert "1 groups or dead letters, the first at offset 2, may have been sent" in refusal(agent, log, clock)


def test_what_was_done_after_a_gap_was_accepted_is_not_told_by_its_ids(done: Log, clock: ManualClock) -> None:
    [place] = [place for place in done.committed if "in" in place]
    offset, positions = done.committed[place]
    maker, version, incarnation, _, lineage = json.loads(positions)
    done.committed[place] = offset, json.dumps([maker, version, incarnation, 1, lineage])
    assert "accepted a gap" in refusal(FIVES, done, clock)
