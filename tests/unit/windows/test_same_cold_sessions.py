"""Sessions that are rows of the store: the same sessions close with the same records, and the same records are late, as
when all sessions are in memory. One to three stay hot."""

import random
from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.cold import ColdRows
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.errors import ChangelogIncomplete, PersistenceError
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_cold import PagedTurned, as_the_oracle, as_when_hot, limits
from tests.unit.windows.test_same_sessions import COMPUTE, ENDS, a_session, crowded, expected, told
from tests.unit.windows.test_same_windows import a_log, played
from tests.unit.windows.turning import record

LOGS = 80

pytestmark = pytest.mark.usefixtures("small")


def all_told(fire: Fire) -> Any:
    """All of a result. A session that became part of another one has no total."""
    assert fire.window is not None
    window = fire.window.start, fire.window.end, fire.window.by, fire.revision, fire.final
    return fire.key, window, fire.reason, fire.first, fire.last, fire.count, fire.values.get("total")


def cases(kind: str) -> Any:
    for seed in range(LOGS):
        chance = random.Random(f"{kind} {seed}")
        yield seed, chance, a_session(chance), crowded(a_log(chance), chance)


def test_any_cut_and_any_crash_give_the_sessions_of_the_oracle() -> None:
    evicted = 0
    for seed, chance, window, steps in cases("oracle"):
        most, ends = chance.choice([4, 10_000, 10_000]), chance.choice(ENDS)
        oracle = expected(window, steps, most, ends)
        paged = PagedTurned(window, chance.randint(1, 3), view=told, compute=COMPUTE, max_items=most, **ends.rule)
        partition = played(paged, steps, chance)
        evicted += as_the_oracle(partition, oracle, seed)
    assert evicted > 2 * LOGS


@pytest.mark.parametrize("kind", ["limits", "skip", "at_most", "never"])
def test_what_is_cold_changes_no_result(kind: str) -> None:
    evicted = 0
    for seed, chance, window, steps in cases(kind):
        more = limits(chance) if kind == "limits" else {}
        if kind == "at_most":
            window = replace(window, idle=None, grace=1e6, at_most=chance.choice([5.0, 10.0]))
        if kind == "never":
            window = replace(window, at_most=None)
        window = replace(window, late="skip") if kind == "skip" else window
        evicted += as_when_hot(window, chance.randint(1, 3), steps, seed, view=all_told, **more)
    assert evicted > LOGS


def test_a_session_does_not_begin_before_the_store_was_asked_for_those_that_its_record_joins() -> None:
    partition = PagedTurned(replace(a_session(random.Random(1)), grace=10.0), 1)
    for offset, key in enumerate((b"a", b"b", b"c")):
        partition.take(offset, [Step(10.0, key, 10_000)])
        partition.commit(10.0, offset + 1)
    assert partition.groups.cold.count == 2
    assert list(partition.reads.look_up([], 10.0)) == [[]]
    partition.groups.accept([record(3, b"a", 20_000)], 20.0)
    with pytest.raises(PersistenceError, match="was not asked for"):
        partition.groups.accept([record(4, b"a", 10_000)], 20.0)


def test_rows_that_event_time_must_have_closed_are_missed_before_the_end_of_the_partition_is_reached() -> None:
    partition = PagedTurned(replace(a_session(random.Random(1)), size=1.0, grace=0.0), 1)
    for offset, key in enumerate((b"a", b"b", b"c")):
        partition.take(offset, [Step(10.0, key, 10_000)])
        partition.commit(10.0, offset + 1)
    partition.store.rows = ColdRows()
    partition.take(3, [Step(20.0, b"d", 20_000)])
    with pytest.raises(ChangelogIncomplete, match="2 rows of cold groups are missing"):
        partition.reads.expire(20.0)


def test_a_batch_whose_records_open_several_sessions_of_a_key_finds_room_for_each() -> None:
    window = replace(a_session(random.Random(1)), size=1.0, grace=1.0, idle=None, at_most=None)
    partition = PagedTurned(window, 1, max_groups=3, on_full="dead-letter")
    for offset, (key, time) in enumerate([(b"a", 10_500), (b"b", 10_500), (b"c", 11_900)]):
        partition.take(offset, [Step(10.0, key, time)])
        partition.commit(10.0, offset + 1)
    assert (partition.groups.cold.count, len(partition.groups.states)) == (2, 1)
    partition.take(3, [Step(10.0, b"d", 12_600), Step(10.0, b"d", 11_000)])
    partition.commit(10.0, 5)
    assert (partition.refused, len(partition.results)) == ([], 2)
