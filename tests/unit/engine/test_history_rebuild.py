"""`replay --rebuild` of agents whose history tells which groups ended without a result."""

from collections import Counter
from dataclasses import replace

import pytest

from sluicegate.streams.aggregation.events import GroupEnded
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.rebuilding.rebuild_plan import RebuildRange
from tests.unit.engine import handlers
from tests.unit.engine.driver import memory
from tests.unit.engine.histories import KINDS, Run, groups, problems
from tests.unit.engine.rebuilding import rebuild, state

REBUILT = ("discarded", "having", "handler", "session")


def lost(run: Run) -> Run:
    """The store is lost, with what it held unsent."""
    run.store = memory(run.clock)
    return run


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", REBUILT)
def test_the_state_is_that_of_before(kind: str, seed: int) -> None:
    run = Run(KINDS[kind], seed).play()
    before, ended, called = state(run.agent, run.store), Counter(groups(run.log)), len(handlers.calls)
    rebuild(run.agent, lost(run).store, run.log, run.clock)
    assert state(run.agent, run.store) == before
    run.settle()
    assert Counter(event for event in groups(run.log) if event in ended) == ended
    run.play(10)
    assert problems(run) == []
    assert (len(handlers.calls) > called) == (run.agent.handler is not None)


@pytest.mark.parametrize("kind", ["discarded", "having"])
@pytest.mark.parametrize("seed", range(4))
def test_groups_whose_message_was_not_sent_have_it_afterwards(kind: str, seed: int) -> None:
    run = Run(KINDS[kind], seed).play(20)
    driver = run.driver().turns()
    driver.producer.room = 0
    for _ in range(12):
        run.feed("ab")
        driver.turns(1)
    driver.later(0.5).turns()
    [planned] = rebuild(run.agent, lost(run).store, run.log, run.clock)
    assert (GroupEnded in map(type, planned.built.decided.values())) == (kind == "having")
    run.settle()
    assert problems(run) == []


def test_a_group_that_ended_and_has_no_message_is_forgotten_only_if_the_command_says_so() -> None:
    run = Run(KINDS["handler"], 0)
    for key in "aaaabaaaa":
        run.log.append("in", 0, key.encode(), b'{"amount": 1}')
    run.settle()
    del run.log.topics["history"][0][-1]
    called = len(handlers.calls)
    with pytest.raises(ConfigurationError, match=r"1 groups, the first at offset 5, ended and have no message"):
        rebuild(run.agent, lost(run).store, run.log, run.clock)
    assert list(run.store.partitions("app")) == []
    rebuild(run.agent, run.store, run.log, run.clock, RebuildRange(accept_gaps=True))
    run.settle()
    assert len(handlers.calls) == called


def test_a_history_of_which_retention_took_the_start_needs_a_time() -> None:
    run = Run(KINDS["discarded"], 1).play()
    del run.log.topics["history"][0][:3]
    run.log.low["history", 0] = 3
    with pytest.raises(ConfigurationError, match="retention took the start of history"):
        rebuild(run.agent, lost(run).store, run.log, run.clock)
    end = run.log.high("in", 0)
    rebuild(run.agent, run.store, run.log, run.clock, RebuildRange(since=end))


def test_slow_handlers_are_refused() -> None:
    run = Run(KINDS["slow"], 1).play(5)
    with pytest.raises(ConfigurationError, match="its handler has concurrency"):
        rebuild(run.agent, lost(run).store, run.log, run.clock)


@pytest.mark.parametrize(("kind", "why"), [("handler", "handler"), ("discarded", "discard"), ("having", "having")])
def test_without_the_history_they_are_refused(kind: str, why: str) -> None:
    run = Run(replace(KINDS[kind], history=""), 1).play(5)
    with pytest.raises(ConfigurationError, match=why):
        rebuild(run.agent, lost(run).store, run.log, run.clock)
