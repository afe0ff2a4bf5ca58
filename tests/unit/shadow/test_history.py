"""With `history` agents are judged whose groups may end without a result: handlers, discarded and dropped groups."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.streams.agent import Agent
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups.open_groups import drop, open_groups
from sluicegate.streams.operations.replaying.shadowing import ShadowRange
from sluicegate.streams.testing.log import LogProducer
from tests.unit.engine import handlers
from tests.unit.engine.histories import KINDS
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene, all_identical, figures

JUDGED = {name: agent for name, agent in KINDS.items() if name != "routes"} | {
    "routes": replace(KINDS["routes"], routes=KINDS["routes"].routes[:1])
}

TOLD_ONCE = [name for name in JUDGED if name != "handler or letter"]
"""No dead letter tells of a group beside its message."""


def played(agent: Agent, seed: int = 3, records: int = 150, **how: Any) -> Scene:
    scene = Scene(agent, partitions=2, seed=seed)
    scene.play(records, **how)
    return scene


@pytest.mark.parametrize("lag", [0.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", JUDGED)
def test_what_a_worker_did_is_identical_whatever_crashed(kind: str, seed: int, lag: float) -> None:
    scene = played(JUDGED[kind], seed, 200, kill=0.3, lag=lag)
    scene.feed("open", {"amount": 1})
    scene.turn()
    comparison = scene.shadow()
    assert all_identical(comparison), comparison.document()
    assert comparison.results.counts["identical"] > 20
    assert comparison.dead.counts["identical"] > 10
    assert comparison.open.counts["identical"] > 0
    assert scene.log.topics["history"] != [[], []]


@pytest.mark.parametrize("kind", TOLD_ONCE)
def test_a_message_that_is_gone_is_missing(kind: str) -> None:
    scene = played(JUDGED[kind])
    whole, messages = figures(scene.shadow())["identical"], scene.log.topics["history"][0]
    del messages[len(messages) // 2]
    assert figures(scene.shadow()) == {"identical": whole - 1, "missing": 1}


@pytest.mark.parametrize("kind", TOLD_ONCE)
def test_a_message_with_another_extent_is_changed(kind: str) -> None:
    scene = played(JUDGED[kind])
    whole, messages = figures(scene.shadow())["identical"], scene.log.topics["history"][0]
    place = len(messages) // 2
    headers = [(name, b"17" if name == "sluicegate-count" else value) for name, value in messages[place].h]
    messages[place] = replace(messages[place], h=headers)
    comparison = scene.shadow()
    assert figures(comparison) == {"identical": whole - 1, "changed": 1}
    assert comparison.results.examples["changed"][0].differs == ("count",)


def test_without_the_history_a_handler_is_refused() -> None:
    scene = played(JUDGED["handler"], records=30)
    with pytest.raises(ConfigurationError, match="the handler"):
        scene.shadow(live=replace(scene.agent, history=""))


def test_another_message_in_the_topic_is_refused() -> None:
    scene = played(JUDGED["discarded"], records=30)
    scene.log.append("history", 0, b"a", b"{}")
    with pytest.raises(ConfigurationError, match="another program writes to the topic"):
        scene.shadow()


@pytest.mark.parametrize("seed", range(3))
def test_a_range_within_the_history_is_identical_too(seed: int) -> None:
    scene = played(JUDGED["handler"], seed, 150)
    end = min(scene.log.high("in", number) for number in (0, 1))
    for begin, until in ((20, None), (end - 15, None), (10, 40), (0, 50)):
        comparison = scene.shadow(wanted=ShadowRange(since=begin, until=until))
        assert all_identical(comparison), (begin, until, comparison.document())


def test_a_failing_handler_changes_no_verdict() -> None:
    agent = JUDGED["handler"]
    assert agent.handler is not None
    scene = Scene(replace(agent, handler=replace(agent.handler, attempts=1)), partitions=2, seed=4)
    handlers.fails.update({total: [ValueError("no")] for total in (4, 5, 6, 7, 8, 12)})
    scene.play(150)
    assert any(dict(letter.h)["sluicegate-dead-stage"] == b"handler" for letter in scene.log.topics["dead"][0])
    assert all_identical(scene.shadow())


@pytest.mark.parametrize("kind", ["handler", "discarded", "having"])
def test_a_group_that_was_dropped_is_identical_and_not_open(kind: str) -> None:
    scene = Scene(JUDGED[kind])
    for key in "aabba":
        scene.feed(key, {"amount": 5})
    scene.turn()
    group = next(group for group in open_groups(scene.store, "app", scene.agent) if group.key == b"a")
    drop(scene.store, group, scene.agent, Person("anne", "", "token-of-anne"), LogProducer(scene.log))
    for key in "aab":
        scene.feed(key, {"amount": 5})
    scene.settle()
    comparison = scene.shadow()
    assert all_identical(comparison), comparison.document()
    reasons = [dict(message.h)["sluicegate-reason"] for message in scene.log.topics["history"][0]]
    assert reasons[0] == b"drop"


def test_another_count_gives_the_figures_of_an_agent_without_a_handler() -> None:
    """The same records under the same rules, whose groups become results."""
    rule = an_agent(count=4, since_first=2.0)
    new = an_agent(count=2, since_first=2.0)
    plain, handled = (played(agent, 5) for agent in (rule, JUDGED["handler"]))
    wanted, comparison = plain.shadow(rule=new), handled.shadow(rule=replace(new, handler=JUDGED["handler"].handler))
    assert figures(comparison) == figures(wanted)
    assert figures(comparison)["changed"] > 10


def test_the_history_is_no_part_of_the_rule() -> None:
    """A new file that leaves it out is judged as the results were made."""
    scene = played(JUDGED["handler"])
    assert all_identical(scene.shadow(rule=replace(scene.agent, history="")))
