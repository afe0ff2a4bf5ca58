"""Rows that the broker refuses for good do not pile up without a bound: the partition halts, and nothing is lost."""

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead import dead_rows
from sluicegate.streams.outbox import relay
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import an_agent, shown

PLACE = Partition("app", "sums", "in", 0)
MOST = 100_000


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MOST_DEAD", MOST)


def refusing(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    made = Driver(an_agent(count=1), store, log, clock)
    made.producer.fate = lambda row: "rejected" if row.topic == "dead" else "delivered"
    return made.give(0)


def test_too_many_bytes_of_dead_rows_halt_the_partition_also_after_a_restart(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    for _ in range(50):
        log.append("in", 0, b"k", b"{" + b"x" * 10_000)
    driver = refusing(log, store, clock).turns(80)
    assert shown(driver)[1]["in", 0] == ("halted", "produce-stopped")
    detail = str(driver.worker._claims.others()[0].detail)
    assert "row 10 for topic dead" in detail
    assert "MiB of dead rows: correct why the broker refuses them, send them with `sluicegate dead retry" in detail
    dead = store.dead(PLACE, 1_000)
    assert len(dead) == MOST // 10_001
    unsent = store.pending(PLACE, 0, 1_000)
    assert len(dead) + len(unsent) == 50
    again = refusing(log, store, clock).turns(40)
    assert shown(again)[1]["in", 0] == ("halted", "produce-stopped")
    assert len(store.dead(PLACE, 1_000)) == len(dead)

    dead_rows.requeue(store, PLACE, lambda row: True, Person("me", "mended", "token"))
    Driver(an_agent(count=1), store, log, clock).give(0).turns(80)
    assert len(distinct(log, "dead")) == 50
    assert list(store.dead(PLACE, 1_000)) == []
