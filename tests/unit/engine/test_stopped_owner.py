"""After a clean stop nobody owns the partitions of a process, and readers are told so; after a death its name stays."""

from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.groups import open_groups
from sluicegate.streams.ownership.claims import Claims
from tests.unit.engine.driver import Driver, memory
from tests.unit.engine.scene import ManualClock, a_log, an_agent, feed
from tests.unit.engine.test_gaps import truncation


def owners(store: MemoryStore) -> list[str]:
    return [view.claim.owner for partition in store.partitions("app") if (view := store.read(partition)) is not None]


def running() -> tuple[Driver, MemoryStore, Any]:
    clock = ManualClock()
    store, log = memory(clock), a_log("in", "out", "dead", partitions=3)
    feed(log, ("x", 1), ("x", 2))
    feed(log, ("y", 1), number=1)
    return Driver(an_agent(), store, log, clock).give(0, 1, 2).turns(), store, log


def stopped() -> list[str]:
    worker, store, _ = running()
    assert owners(store) == ["member"] * 3
    assert worker.worker.run(lambda: True) == 0
    return owners(store)


def test_after_a_clean_stop_nobody_owns_its_partitions() -> None:
    assert stopped() == ["", "", ""]


def test_without_letting_go_its_name_would_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Claims, "let_go", lambda _: None)
    assert stopped() == ["member"] * 3


def test_a_partition_that_had_halted_is_let_go_of_as_well() -> None:
    clock = ManualClock()
    store, log = memory(clock), a_log()
    feed(log, *[("x", 1)] * 5)
    Driver(an_agent(), store, log, clock).give(0).turns()
    truncation(log, store)
    worker = Driver(an_agent(), store, log, clock).give(0).turns()
    assert owners(store) == ["member"]
    worker.worker.run(lambda: True)
    assert owners(store) == [""]


def test_who_owns_a_partition_since_is_left_alone() -> None:
    worker, store, _ = running()
    for partition in store.partitions("app"):
        store.claim(partition, f"another {partition.number}", "another")
    worker.worker.run(lambda: True)
    assert owners(store) == ["another"] * 3


def test_a_person_who_changes_something_owns_nothing() -> None:
    worker, store, _ = running()
    worker.worker.run(lambda: True)
    [group, *_] = open_groups.open_groups(store, "app", an_agent())
    open_groups.fire(store, group, Person("ann", "now", "a token"))
    assert owners(store) == ["", "", ""]


def test_the_next_worker_goes_on_with_what_was_open() -> None:
    worker, store, log = running()
    worker.worker.run(lambda: True)
    Driver(an_agent(), store, log, worker.clock).give(0, 1, 2).turns()
    assert owners(store) == ["member"] * 3
    assert [(group.key, group.records) for group in open_groups.open_groups(store, "app", an_agent())] == [
        (b"x", 2),
        (b"y", 1),
    ]
