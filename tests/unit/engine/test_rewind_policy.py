"""A deployment with the policy `rewind`, seen by a person: what is refused, what the group listing says, and how a
partition whose records are gone goes on."""

from dataclasses import replace

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, App, Reducer
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations import accepting
from sluicegate.streams.operations.deploying import DeployOptions, deploy
from sluicegate.streams.operations.groups import open_groups
from sluicegate.streams.operations.replaying.rewind_check import RewindCheck
from sluicegate.streams.rules import rule_of
from sluicegate.streams.testing.log import LogHistory, LogInput
from sluicegate.streams.versions import catalogue
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import Killed, an_agent, feed, hooked, shown, totals, until_killed

PLACE = Partition("app", "sums", "in", 0)
V1 = an_agent(count=3)
V2 = an_agent(count=2, compute=(Reducer("total", "max", "amount"),))
ME = Person("me", "", "token-of-me")


def worker(store: MemoryStore, log: Log, clock: ManualClock, agent: Agent) -> Driver:
    return Driver(agent, store, log, clock, deployed=catalogue.read(store, "app")["sums"]).give(0)


def deploys(store: MemoryStore, log: Log, agent: Agent, policy: str | None, token: str) -> None:
    options = DeployOptions(policy, rewinds=RewindCheck(store, "app", LogHistory(log)))
    deploy(store, App("app", "memory://", (agent,)), ["sums"], options, Person("me", "", token))


@pytest.fixture
def begun(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """Group a has two records and b one; c has ended between them."""
    deploys(store, log, V1, None, "first")
    feed(log, ("a", 1), ("c", 1), ("c", 1), ("c", 1), ("b", 5), ("a", 3))
    return worker(store, log, clock, V1).turns()


def switched(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The partition changes to version 2, and its worker is killed before it reads anything again."""
    deploys(store, log, V2, "rewind", "second")
    commit = store.commit
    hooked(store, after=_dies)
    assert until_killed(worker(store, log, clock, V2))
    store.commit = commit  # type: ignore[method-assign]


def _dies(claim: Claim, changes: Changes) -> None:
    raise Killed


def test_the_groups_end_without_a_result_and_their_records_count_under_the_new_rule(
    begun: Driver, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    deploys(store, log, V2, "rewind", "second")
    driver = worker(store, log, clock, V2).turns()
    assert totals(log) == [("c", "count", 3, 3), ("a", "count", 2, 3)]
    feed(log, ("b", 4))
    driver.turns()
    assert totals(log)[2:] == [("b", "count", 2, 5)]


def test_a_group_that_is_read_again_says_so_and_does_not_fire(
    begun: Driver, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    switched(log, store, clock)
    groups = {group.key: group for group in open_groups.open_groups(store, "app", V2)}
    assert [(key, group.unread, group.fires_in) for key, group in groups.items()] == [(b"a", 2, None), (b"b", 1, None)]
    text = "2 of its 2 records are read again under the newest rule, owner member"
    assert open_groups.why(groups[b"a"], V2) == text
    with pytest.raises(ConfigurationError, match="are read again under the newest rule: fire it when they were"):
        open_groups.fire(store, groups[b"a"], ME)
    driver = worker(store, log, clock, V2).turns()
    assert [(group.key, group.unread) for group in open_groups.open_groups(store, "app", V2)] == [(b"b", None)]
    assert totals(log)[1:] == [("a", "count", 2, 3)]
    assert shown(driver)[0] == []


def test_a_record_that_is_gone_halts_the_partition_until_the_group_is_dropped(
    begun: Driver, log: Log, store: MemoryStore, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    switched(log, store, clock)
    feed(log, ("b", 4))
    del log.topics["in"][0][5]  # the second record of a
    driver = worker(store, log, clock, V2).turns()
    assert shown(driver)[0] == ["halted in/0: rewind-mismatch"]
    assert "1 of the group of key 'a' were not among them: it holds 2 records from 0 to 5" in capsys.readouterr().out
    [lost] = [group for group in open_groups.open_groups(store, "app", V2) if group.key == b"a"]
    open_groups.drop(store, lost, V2, ME)
    assert shown(worker(store, log, clock, V2).turns())[0] == []
    assert totals(log)[1:] == [("b", "count", 2, 5)]


def test_records_that_come_after_a_truncation_are_no_records_that_were_read(
    begun: Driver, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The log ends below the offset at which the partition changed: what is written there is new."""
    switched(log, store, clock)
    del log.topics["in"][0][4:]
    halted = worker(store, log, clock, V2).turns()
    assert "log-truncated" in shown(halted)[0][0]
    look = LogInput(log, "app.sums")
    assert accepting.accept(store, V2, PLACE, lambda: look.facts("in", 0), ME, forget=True) is not None
    feed(log, ("d", 1), ("d", 2))
    worker(store, log, clock, V2).turns()
    assert ("d", "count", 2, 2) in totals(log)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (an_agent(count=3, on_full="dead-letter"), V2, "only with on_full: fire-oldest"),
        (an_agent(count=3, receive=("in",)), V2, "repeats are dropped in in"),
    ],
)
def test_rules_under_which_records_cannot_be_read_again_are_refused(
    log: Log, store: MemoryStore, clock: ManualClock, old: Agent, new: Agent, why: str
) -> None:
    deploys(store, log, old, None, "first")
    feed(log, ("a", 1))
    worker(store, log, clock, old).turns()
    with pytest.raises(ConfigurationError) as error:
        deploys(store, log, replace(new, receive=old.receive), "rewind", "second")
    assert why in str(error.value)


def test_records_that_are_gone_are_found_before_the_deployment(
    begun: Driver, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    del log.topics["in"][0][5]
    with pytest.raises(ConfigurationError, match="in/0: the topic lacks records of 1 open group"):
        deploys(store, log, V2, "rewind", "second")
    log.low["in", 0] = 2
    with pytest.raises(ConfigurationError, match="which began at 0, cannot be read again: the topic begins at 2"):
        deploys(store, log, V2, "rewind", "third")


def test_a_partition_that_no_worker_has_claimed_is_refused(begun: Driver, log: Log, store: MemoryStore) -> None:
    """A worker with an earlier version may claim it, fill groups and change to the newest version, while the
    deployment is under way. Then two deployments would have records of one partition read again."""
    log.topics["in"].append([])
    with pytest.raises(ConfigurationError, match="in/1 has no version yet; wait until a worker has claimed it"):
        deploys(store, log, V2, "rewind", "second")


def test_a_compacted_topic_is_refused(begun: Driver, log: Log, store: MemoryStore) -> None:
    class Compacted(LogHistory):
        def compacted(self, topics: object) -> list[str]:
            return ["in"]

    options = DeployOptions("rewind", rewinds=RewindCheck(store, "app", Compacted(log)))
    with pytest.raises(ConfigurationError, match="records of in are deleted by their key"):
        deploy(store, App("app", "memory://", (V2,)), ["sums"], options, ME)


def test_without_the_input_topics_it_is_refused(begun: Driver, store: MemoryStore) -> None:
    with pytest.raises(ConfigurationError, match="--open rewind cannot be judged"):
        deploy(store, App("app", "memory://", (V2,)), ["sums"], DeployOptions("rewind"), ME)


def test_groups_that_were_converted_or_still_finish_are_refused(
    begun: Driver, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    fewer = an_agent(count=4)
    deploys(store, log, fewer, "convert", "second")
    with pytest.raises(ConfigurationError, match="in/0 has not changed to version 2 yet"):
        deploys(store, log, V2, "rewind", "third")
    worker(store, log, clock, fewer).turns()
    with pytest.raises(ConfigurationError, match="'a' in in/0, which began at 0, was converted from an earlier"):
        deploys(store, log, V2, "rewind", "fourth")
    deploys(store, log, V2, "finish", "fifth")
    worker(store, log, clock, V2).turns()
    with pytest.raises(ConfigurationError, match="in/0 still has a group of version 2"):
        deploys(store, log, an_agent(count=9), "rewind", "sixth")


def test_results_name_the_rule_under_which_they_were_read_again(
    begun: Driver, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    deploys(store, log, V2, "rewind", "second")
    worker(store, log, clock, V2).turns()
    assert [header(message, "sluicegate-rule") for message in distinct(log, "out")] == [
        rule_of(V1).short,
        rule_of(V2).short,
    ]
