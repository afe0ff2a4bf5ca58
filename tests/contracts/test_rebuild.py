"""What a rebuild asks of a store: half of it is told from the whole, and an earlier half leaves nothing behind."""

import json
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Reducer
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import ChangelogIncomplete, PersistenceError
from sluicegate.streams.operations.rebuilding import rebuild_write
from sluicegate.streams.operations.rebuilding.rebuild_write import lost
from tests.unit.engine.driver import Driver, ManualClock, memory
from tests.unit.engine.rebuilding import feed_at, rebuild, state
from tests.unit.engine.scene import a_log, an_agent


def failing(store: Any, number: int) -> Any:
    """Its commit of this number is the last that is done, and nobody hears of it."""
    commit, done = store.commit, []

    def counted(claim: Claim, changes: Changes) -> Claim:
        made: Claim = commit(claim, changes)
        done.append(made)
        if len(done) == number:
            raise PersistenceError("killed")
        return made

    store.commit = counted
    return commit


def ids(store: Store, partition: Partition) -> list[str]:
    return [row.id for row in store.pending(partition, 0, 100)]


def test_a_lost_state_is_rebuilt_after_a_run_that_was_killed_half_way(
    monkeypatch: pytest.MonkeyPatch, store: Store, ns: str
) -> None:
    monkeypatch.setattr(rebuild_write, "COMMIT_BYTES", 1)
    monkeypatch.setattr(rebuild_write, "COMMIT_ROWS", 1)
    agent = an_agent(ns, count=3, since_first=600.0, compute=(Reducer("all", "collect", "n"),))
    log, clock = a_log(), ManualClock()
    before: MemoryStore = memory(clock)
    driver = Driver(agent, before, log, clock).give(0)
    driver.producer.fate = lambda row: "delivered" if row.number <= 1 else "lost"
    for n, key in enumerate("abcabcabcdde"):
        feed_at(log, clock, key, json.dumps({"n": n}).encode())
    driver.turns().later(0.5).turns()
    partition = Partition("app", ns, "in", 0)
    commit = failing(store, 5)  # the mark, d, e, what follows them, and the first of two rows
    with pytest.raises(PersistenceError):
        rebuild(agent, store, log, clock)
    store.commit = commit  # type: ignore[method-assign]
    assert lost(store.read(partition))
    assert len(ids(store, partition)) == 1
    with pytest.raises(ChangelogIncomplete, match="its rebuild was not finished"):
        state(agent, store)
    [planned] = rebuild(agent, store, log, clock)
    assert state(agent, store) == state(agent, before)
    assert ids(store, partition) == ids(before, partition)[-2:]
    assert rebuild(agent, store, log, clock) == []
    assert len(planned.built.decided) == 2
