"""`dead retry` sends a record back to its topic, which another agent of the app may write: the copy is no output."""

from dataclasses import replace

import pytest

from sluicegate.streams.contracts.headers import RETRIED_FOR, SHARD, renamed
from sluicegate.streams.operations.dead.dead_letters import Letter, original
from tests.unit.engine.driver import Log, memory
from tests.unit.engine.rebuilding import rebuild, state
from tests.unit.engine.scene import an_agent
from tests.unit.shadow.scene import Scene, all_identical, figures


@pytest.fixture
def scene() -> Scene:
    """Its results are the records of the agent `next`, which failed."""
    made = Scene(an_agent(count=3, since_first=2.0))
    made.play(60)
    return made


def retry(log: Log) -> None:
    """The first result goes back to its topic, for the agent that could not use it."""
    m = log.topics["out"][0][0]
    why = "id", "next", "out", 0, 0, None, False, "handler", "handler-failed", "no", "1"
    row = original(Letter(*why, 0.0, m.k, m.v, renamed(m.h or [])), "app", 0, 0)
    log.append("out", 0, row.key, row.value, row.headers)


def test_a_shadow_passes_over_what_was_retried_for_a_later_agent(scene: Scene) -> None:
    before = figures(scene.shadow())
    retry(scene.log)
    verdicts = scene.shadow()
    assert SHARD not in dict(scene.log.topics["out"][0][-1].h or ())
    assert all_identical(verdicts), verdicts.document()
    assert figures(verdicts) == before


def test_a_rebuild_passes_over_what_was_retried_for_a_later_agent(scene: Scene) -> None:
    retry(scene.log)
    lost = memory(scene.clock)
    rebuild(scene.agent, lost, scene.log, scene.clock)
    assert state(scene.agent, lost) == state(scene.agent, scene.store)


def test_an_output_that_claims_to_be_retried_is_still_judged(scene: Scene) -> None:
    """Only a copy without a shard is passed over: none is lost from the comparison by one header more."""
    m = scene.log.topics["out"][0][0]
    scene.log.topics["out"][0][0] = replace(m, h=[*(m.h or ()), (RETRIED_FOR, b"app/next")], v=b"{}")
    assert figures(scene.shadow())["changed"] == 1
