"""`groups drop` of a key with sliding windows: no record from before the drop comes back."""

import json
from dataclasses import replace

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.operations.groups.open_groups import drop, open_groups
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.test_windows import ANN, put, windowed_agent

LAST = Window(0.0, grace=1.0, idle=None, at_most=None, kind="sliding", last=2)
SUM, BAG = (Reducer("total", "sum", "amount"),), (Reducer("all", "collect", "amount"),)


@pytest.mark.parametrize("compute", [SUM, BAG], ids=["state", "bag"])
@pytest.mark.parametrize("size", [0.0, 60.0], ids=["last", "sliding and last"])
def test_records_that_later_ones_pushed_out_stay_away_after_a_drop(
    log: Log, store: MemoryStore, clock: ManualClock, compute: tuple[Reducer, ...], size: float
) -> None:
    """The changelog still has their states. It does not say that they were removed."""
    agent = windowed_agent(replace(LAST, size=size), compute=compute)
    driver = Driver(agent, store, log, clock).give(0)
    put(log, *[("a", second, 1) for second in range(20)], ("b", 20, 1))
    driver.turns()
    [group] = open_groups(store, "app", agent, b"a")
    drop(store, group, agent, ANN)
    for _ in range(3):
        driver.later(6).turns(5)
    assert [group.key for group in open_groups(store, "app", agent)] == [b"b"]
    put(log, ("a", 21, 1), ("b", 21, 1))
    driver.turns()
    counts = [(result["key"], result["count"]) for m in distinct(log, "out") if (result := json.loads(m.v or b""))]
    assert counts[-2:] == [("a", 1), ("b", 2)]
