"""Remembered ids are part of the partition's state: committed, restored and compacted with it."""

from typing import Any

import msgspec
import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.aggregation.durable import changelog, entry
from sluicegate.streams.aggregation.seen import KnownIds
from tests.unit.engine.driver import Driver, Log, ManualClock, memory
from tests.unit.engine.producing import metrics, sums, write
from tests.unit.engine.scene import Killed, a_log, hooked, totals, until_killed

WRITTEN = 24
PIECES = [[*range(at, at + 6), *range(max(0, at - 6), at)] for at in range(0, WRITTEN, 6)] + [[*range(WRITTEN)]]
"""The numbers that are written at once: six new ones, and the six before again; at the end all of them once more."""


def storm(clock: ManualClock, step: int, before: bool) -> tuple[list[Any], int]:
    """A producer that writes all twice, the second time after a while; a process that dies at its commit number `step`,
    before or after it took effect; another one. The groups, and how many commits the first one made."""
    store, log, commits = memory(clock), a_log(), [0]
    first = Driver(sums(), store, log, clock).give(0)

    def dies(claim: Any, changes: Any) -> None:
        commits[0] += 1
        if commits[0] == step:
            raise Killed

    real = store.commit
    hooked(store, dies if before else None, None if before else dies)
    dead = False
    for piece in PIECES:
        for number in piece:
            write(log, f"m{number}", amount=number)
        dead = dead or until_killed(first, 2)
    store.commit = real  # type: ignore[method-assign]
    Driver(sums(), store, log, clock).give(0).turns(12)
    return totals(log), commits[0]


def test_a_crash_at_any_commit_lets_no_duplicate_in_and_no_record_out(clock: ManualClock) -> None:
    expected = [("a", "count", 3, sum(range(number, number + 3))) for number in range(0, WRITTEN, 3)]
    calm, commits = storm(clock, 0, before=True)
    assert calm == expected
    assert commits > 4
    for step in range(1, commits + 1):
        for before in (True, False):
            assert storm(clock, step, before)[0] == expected, (step, before)


def test_without_ids_in_the_commit_a_crash_lets_duplicates_in(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, commits = storm(clock, 0, before=True)
    monkeypatch.setattr(KnownIds, "changes", lambda self, now: [])
    assert any(storm(clock, step, before=True)[0] != expected for step in range(2, commits + 1))


def test_174_ids_are_known_after_a_restore_from_a_compacted_changelog(
    store: MemoryStore, log: Log, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog, "SLACK", 500)
    monkeypatch.setattr(changelog, "SLICE", 64)
    driver = Driver(sums(count=100), store, log, clock).give(0)
    for number in range(200):
        write(log, f"m{number}")
        driver.turns(2)
    first = driver.worker._owners["in", 0].claim.first
    assert first > 1, "nothing was compacted"
    for number in range(200):
        write(log, f"m{number}")
    heir = Driver(sums(count=100), store, log, clock).give(0).turns()
    assert (totals(log), metrics(heir)["records_duplicate"]) == ([("a", "count", 100, 100)] * 2, 200)


class Former(msgspec.Struct, array_like=True):
    """An entry as it was before it could hold ids."""

    number: int
    at: float
    states: dict[bytes, Any]
    added: dict[bytes, Any]
    whole: dict[bytes, Any]
    senders: dict[str, Any]
    all_senders: dict[str, Any]


def test_entries_of_an_earlier_version_are_read_and_new_ones_by_it() -> None:
    old = entry.PLAIN + msgspec.msgpack.encode(Former(1, 2.0, {b"k": None}, {}, {}, {}, {}))
    assert entry.unpacked(old) == entry.ChangelogEntry(1, 2.0, {b"k": None}, {}, {}, {}, {})
    new = msgspec.msgpack.encode(entry.ChangelogEntry(1, 2.0, {}, {}, {}, {}, {}, [(2.0, [b"id"])], "key:"))
    assert msgspec.msgpack.decode(new, type=Former) == Former(1, 2.0, {}, {}, {}, {}, {})
