"""A worker of many partitions takes more records at once: what a turn does for each partition is shared by more."""

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.engine import worker
from tests.unit.engine.driver import Driver, ManualClock
from tests.unit.engine.scene import a_log, an_agent

RECORDS = 12_000


@pytest.mark.parametrize(
    ("partitions", "most"),
    [(4, worker.CHUNK), (50, 2 * worker.CHUNK), (200, 4 * worker.CHUNK)],
    ids=["few", "many", "most"],
)
def test_a_turn_takes_more_records_of_many_partitions(
    store: MemoryStore, clock: ManualClock, partitions: int, most: int
) -> None:
    log = a_log("in", "out", "dead", partitions=partitions)
    for number in range(RECORDS):
        log.append("in", number % partitions, b"k", b"{}")
    driver, sizes = Driver(an_agent(count=1_000_000), store, log, clock), list[int]()
    accept = driver.worker._accept
    driver.worker._accept = lambda batch, now: (sizes.append(len(batch)), accept(batch, now))[1]  # type: ignore[method-assign]
    driver.give(*range(partitions)).turns(40)
    assert max(sizes) == most
    assert sum(sizes) == RECORDS
