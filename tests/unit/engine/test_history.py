"""`history`: each group that ends has one result or one message of the history, whatever dies."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups.open_groups import drop, open_groups
from sluicegate.streams.outbox import rows
from sluicegate.streams.rules import rule_of
from sluicegate.streams.testing.log import LogProducer
from tests.unit.engine import handlers
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import distinct, header
from tests.unit.engine.histories import KINDS, Run, groups, messages, problems, told
from tests.unit.engine.scene import an_agent

Patch = pytest.MonkeyPatch
ANNE = Person("anne@here", "a test order", "token-of-anne")


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_each_group_that_ended_has_one_message_whatever_dies(kind: str, seed: int) -> None:
    run = Run(KINDS[kind], seed).play()
    assert problems(run) == []
    assert run.deaths > 5
    assert Counter(event.topic for event in groups(run.log))["history"] > 5


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_history_groups_are_missing(kind: str) -> None:
    run = Run(replace(KINDS[kind], history=""), 1).play()
    assert any("is in 0 groups" in problem for problem in problems(run))


def test_a_history_of_groups_that_have_a_result_is_found(monkeypatch: Patch) -> None:
    def every(agent: Any, events: Any) -> set[int]:
        return {event.fire.first for event in events if event.reason == "ended"}

    monkeypatch.setattr(rows, "unreported", every)
    assert any("2 messages about the group" in problem for problem in problems(Run(KINDS["discarded"], 1).play()))


def test_a_history_in_a_commit_of_its_own_is_found(monkeypatch: Patch) -> None:
    """The end of a group is committed, and its message goes into the next commit."""
    late: list[Any] = []
    make = rows.Rows.make

    def later(self: Any, events: Any) -> Any:
        now, late[:] = [*late], [event for event in events if event.reason == "ended"]
        return make(self, [*(event for event in events if event.reason != "ended"), *now])

    monkeypatch.setattr(rows.Rows, "make", later)
    driver = Run.driver

    def restarted(self: Run, **more: Any) -> Any:
        late.clear()
        return driver(self, **more)

    monkeypatch.setattr(Run, "driver", restarted)
    assert problems(Run(KINDS["handler"], 2).play()) != []


def test_its_headers_and_fields_are_those_of_a_result_without_computed_fields() -> None:
    agent = KINDS["discarded"]
    run = Run(agent, 0)
    for key in "aaaab":
        run.log.append("in", 0, key.encode(), b'{"amount": 1}')
    run.driver().turns().later(3).turns()
    [result], [message] = (distinct(run.log, topic) for topic in ("out", "history"))
    assert [name for name, _ in message.h or ()] == [name for name, _ in result.h or ()]
    document = json.loads(message.v or b"")
    assert [*document, "total"] == [*json.loads(result.v or b"")]
    assert (document["key"], document["count"], document["reason"]) == ("b", 1, "timeout")
    assert document["closed_at"] > document["opened_at"]
    assert (message.k, header(message, "sluicegate-rule")) == (b"b", rule_of(agent).short)
    assert sum(len(name) + len(value or b"") for name, value in message.h or ()) + len(message.v or b"") < 700


def test_a_dead_letter_tells_that_its_group_ended() -> None:
    run = Run(told(an_agent(count=4, since_first=2.0, on_timeout="dead-letter")), 3).play()
    assert problems(run) == []
    assert {event.topic for event in groups(run.log)} == {"out", "dead"}


@pytest.mark.parametrize("kind", ["handler", "slow"])
def test_a_group_whose_handler_gives_up_is_in_the_history_and_a_dead_letter(kind: str) -> None:
    handler = KINDS[kind].handler
    assert handler is not None
    run = Run(replace(KINDS[kind], handler=replace(handler, attempts=1)), 0)
    handlers.fails[4] = [ValueError("no")]
    for _ in range(4):
        run.log.append("in", 0, b"a", b'{"amount": 1}')
    run.settle()
    assert [event.topic for event in groups(run.log)] == ["history", "dead"]
    assert handlers.calls != []


@pytest.mark.parametrize("older", [False, True])
def test_a_group_that_a_person_drops_is_in_the_history(older: bool) -> None:
    before = told(an_agent(count=4, since_first=None))
    agent = told(an_agent(count=3, since_first=None)) if older else before
    versions = deployed((before, "refuse"), *([(agent, "finish")] if older else []))
    run = Run(before, 0)
    for key in "aab":
        run.log.append("in", 0, key.encode(), b'{"amount": 1}')
    run.driver(deployed=deployed((before, "refuse"))).turns()
    run.agent = agent
    run.driver(deployed=versions).turns()
    group = next(group for group in open_groups(run.store, "app", agent) if group.key == b"a")
    drop(run.store, group, agent, ANNE, LogProducer(run.log))
    run.driver(deployed=versions).turns(8)
    [message] = messages(run.log)
    assert (message.t, header(message, "sluicegate-reason"), header(message, "sluicegate-count")) == (
        "history",
        "drop",
        "2",
    )
    assert [group.key for group in open_groups(run.store, "app", agent)] == [b"b"]


def test_a_group_cannot_be_dropped_without_the_broker() -> None:
    run = Run(told(an_agent(count=4, since_first=None)), 0)
    run.log.append("in", 0, b"a", b'{"amount": 1}')
    run.driver().turns()
    [group] = open_groups(run.store, "app", run.agent)
    with pytest.raises(ConfigurationError, match="only the broker tells how many partitions"):
        drop(run.store, group, run.agent, ANNE)
    assert len(open_groups(run.store, "app", run.agent)) == 1


@pytest.mark.parametrize("kind", ["discarded", "handler"])
@pytest.mark.parametrize("policy", ["drop", "flush", "finish"])
def test_what_a_deployment_ends_is_in_the_history(kind: str, policy: str) -> None:
    before = KINDS[kind]
    assert before.aggregation is not None
    after = replace(before, aggregation=replace(before.aggregation, count=3, since_first=None, on_timeout="fire"))
    run = Run(before, 0)
    for key in "aabbbc":
        run.log.append("in", 0, key.encode(), b'{"amount": 1}')
    run.driver(deployed=deployed((before, "refuse"))).turns()
    run.agent = after
    run.driver(deployed=deployed((before, "refuse"), (after, policy))).turns(8).later(3).turns(8)
    run.agent = after
    assert problems(run) == []
    by_rule = {header(message, "sluicegate-rule") for message in messages(run.log)}
    assert by_rule == {rule_of(before).short}
    told_by = {event.topic for event in groups(run.log)}
    expected = "out" if (kind, policy) == ("discarded", "flush") else "history"
    assert told_by == {expected}


def test_dropped_without_a_note_is_missing(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Groups, "forget", lambda self, key, now: self.drop(key))
    with pytest.raises(AssertionError):
        test_what_a_deployment_ends_is_in_the_history("discarded", "drop")
