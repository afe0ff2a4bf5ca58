"""The records of sliding windows in the changelog: short, in slices, in halves, and of one rule only."""

import pytest

from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.aggregation.durable.entry import CHECKED, PLAIN, RECORDS, unpacked
from sluicegate.streams.errors import BufferFull, ChangelogIncomplete
from tests.unit.windows.turning import TOTAL, Turned, record

HOUR = Window(3600.0, grace=1.0, kind="sliding")
SPREAD = (Reducer("mean", "mean", "amount"), Reducer("spread", "variance", "amount"), Reducer("last", "last", "amount"))
KEYS = (b"k", b"x")


def turned(many: int, compute: tuple[Reducer, ...] = TOTAL) -> Turned:
    """So many records of two keys, each with a commit of its own."""
    partition = Turned(HOUR, lambda fire: fire.values, compute=compute)
    for number in range(many):
        put(partition, number)
    return partition


def put(partition: Turned, number: int, many: int = 1, keys: tuple[bytes, bytes] = KEYS) -> None:
    records = [record(at, keys[at % 2], 1_000 * at, at) for at in range(number, number + many)]
    partition.groups.accept(records, 100.0)
    partition.commit(100.0, number + many)


def test_an_entry_has_records_in_a_form_at_which_an_earlier_program_halts() -> None:
    """It reads CHECKED, marks that it knows, and then PLAIN or LZ4."""
    partition = turned(1)
    blob = partition.log[1]
    assert blob[:1] + blob[5:7] == CHECKED + RECORDS + PLAIN
    entry = unpacked(blob)
    assert (entry.states, entry.records) == ({}, [[0, 0, 100.0, 0, b"k", 0]])


def test_an_entry_without_records_has_the_form_of_earlier_programs() -> None:
    partition = turned(1)
    [name] = partition.groups.states
    partition.groups.drop(name)
    partition.commit(100.0, 2)
    entry = unpacked(partition.log[2])
    assert partition.log[2][5:6] == PLAIN
    assert (entry.states, entry.records) == ({name: None}, [])


@pytest.mark.parametrize("compute", [TOTAL, SPREAD])
def test_a_restore_has_the_same_records(compute: tuple[Reducer, ...]) -> None:
    partition = turned(20, compute)
    states = partition.groups.states
    partition.restore()
    assert partition.groups.states == states
    put(partition, 20)
    again = turned(21, compute)
    assert partition.results[-1] == again.results[-1]


@pytest.fixture
def compacting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that compacts all the time, in slices of less than the records of a key."""
    for name, bytes_ in {"SLACK": 0, "SLICE": 200, "GROWTH": 1}.items():
        monkeypatch.setattr(changelog, name, bytes_)


@pytest.mark.usefixtures("compacting")
def test_compaction_writes_the_records_of_a_key_in_slices() -> None:
    partition = turned(40)
    states = partition.groups.states
    assert partition.first > 1
    assert max(len(unpacked(blob).records) for blob in partition.log.values()) <= 1 + 200 // 64 + len(KEYS)
    partition.restore()
    assert partition.groups.states == states


@pytest.mark.usefixtures("compacting")
def test_a_cycle_writes_as_much_as_the_log_grows_however_long_the_keys_are() -> None:
    """With less, a cycle of long keys lasts long, and the log grows to many times the records."""
    partition = turned(0)
    for number in range(0, 400, 40):
        put(partition, number, 40, (b"k" * 1_000, b"x" * 1_000))
    assert max(len(unpacked(blob).records) for blob in partition.log.values()) >= 2 * 40


def test_records_that_are_too_many_for_an_entry_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = turned(2)
    monkeypatch.setattr(changelog, "ENTRY_LIMIT", 300)
    partition.groups.drop(next(iter(partition.groups.states)))
    put(partition, 2, 50)
    states = partition.groups.states
    assert len(states) == 51
    assert len(partition.log) > 4
    partition.restore()
    assert partition.groups.states == states


def test_a_record_that_was_dropped_before_its_commit_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = turned(0)
    partition.groups.accept([record(number, b"k", 1_000 * number, 1) for number in range(50)], 100.0)
    dropped = [*partition.groups.states][25]
    partition.groups.drop(dropped)
    monkeypatch.setattr(changelog, "ENTRY_LIMIT", 300)
    partition.commit(100.0, 50)
    assert len(partition.log) > 2
    partition.restore()
    assert len(partition.groups.states) == 49
    assert dropped not in partition.groups.states


def test_a_record_that_no_entry_can_hold_halts_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = turned(0)
    monkeypatch.setattr(changelog, "ENTRY_LIMIT", 20)
    with pytest.raises(BufferFull, match="lower max_record_bytes"):
        put(partition, 0)


@pytest.mark.parametrize(
    ("compute", "window", "other"),
    [(TOTAL, HOUR, SPREAD), (SPREAD, HOUR, TOTAL), (TOTAL, Window(3600.0), TOTAL)],
    ids=["more values", "fewer values", "another kind of windows"],
)
def test_records_of_another_rule_are_not_taken_over(
    compute: tuple[Reducer, ...], window: Window, other: tuple[Reducer, ...]
) -> None:
    partition, again = turned(3, compute), Turned(window, compute=other)
    again.log, again.last = partition.log, partition.last
    with pytest.raises(ChangelogIncomplete, match="does not fit"):
        again.restore()
