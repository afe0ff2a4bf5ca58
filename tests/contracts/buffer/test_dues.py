"""Deadlines that entries give their group: the newest one that is open counts."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.connectors.times import length, micros
from sluicegate.streams.contracts.leased_values import LATEST_DUE, EntryDue, Gate, PositionMove
from tests.contracts.buffer.given import HOUR, entries, entry, keys, of
from tests.contracts.buffer.packing import pack
from tests.contracts.leasing import Real, leased_store
from tests.contracts.stepping import Stepped

WHILE = timedelta(minutes=2)

Put = Callable[..., list[Any]]
"""Inserts into the group `g` an entry for each of these deadlines (None: without one), under this gate."""
BOTH = pytest.mark.parametrize("form", ["rows", "packs"])


@pytest.fixture
def buffer(store_url: str, stepped: Stepped) -> Iterator[Any]:
    store = leased_store(store_url, Real(), {"json": bytes, "pack": bytes})
    yield store.buffer
    store.close()


@pytest.fixture
def put(buffer: Any, ns: str, form: str) -> Put:
    return rows(buffer, ns) if form == "rows" else packs(buffer, ns)


def rows(buffer: Any, ns: str) -> Put:
    inserted: list[EntryDue | None] = []

    def insert(gate: Gate, *dues: EntryDue | None, group: str = "g") -> list[Any]:
        first = len(inserted)
        inserted.extend(dues)
        made = [entry(number, group=group, due=due) for number, due in enumerate(dues, first)]
        return list(buffer.insert_and_seal(ns, made, gate).batches)

    return insert


def packs(buffer: Any, ns: str) -> Put:
    def insert(gate: Gate, *dues: EntryDue | None, group: str = "g") -> list[Any]:
        first = buffer.position(ns, "topic", 0)
        made = [pack(group, number)._replace(due=due) for number, due in enumerate(dues, first)]
        return list(buffer.insert_packs(ns, made, gate, PositionMove("topic", 0, first, first + len(made))))

    return insert


def at(stepped: Stepped, later: timedelta = timedelta(0)) -> EntryDue:
    return EntryDue("epoch", micros(stepped.now() + later))


def after(since: Any, time: timedelta) -> EntryDue:
    return EntryDue(since, length(time))


def ended(batches: Any) -> list[tuple[str, int]]:
    """The reason and the number of records of each."""
    return [(batch.reason, len(batch.entries)) for batch in batches]


DUES = of(100, dues=True)


@BOTH
def test_a_group_is_sealed_at_the_deadline_that_a_record_gave_and_not_before(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    assert put(DUES, at(stepped, WHILE), None) == []
    assert buffer.due(ns, DUES) == []
    stepped.later(WHILE)
    assert ended(buffer.due(ns, DUES)) == [("timeout", 2)]
    assert put(DUES, None) == []
    stepped.later(WHILE)
    assert buffer.due(ns, DUES) == []


@BOTH
def test_the_newest_deadline_counts_whether_it_is_earlier_or_later(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    put(DUES, at(stepped, WHILE))
    put(DUES, at(stepped, HOUR), None)
    put(DUES, at(stepped, HOUR), group="h")
    put(DUES, at(stepped, WHILE), None, group="h")
    stepped.later(WHILE)
    [batch] = buffer.due(ns, DUES)
    assert (batch.group, ended([batch])) == ("h", [("timeout", 3)])


@BOTH
def test_a_deadline_that_has_passed_ends_the_group_with_the_record_that_gives_it(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    batches = put(DUES, None, at(stepped, -HOUR), None, after("last", -WHILE), at(stepped, HOUR))
    assert ended(batches) == [("timeout", 2), ("timeout", 2)]
    assert (buffer.due(ns, DUES), ended([buffer.seal(ns, "g", DUES)])) == ([], [("manual", 1)])


@BOTH
def test_a_count_or_an_end_comes_before_a_deadline_that_has_passed(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    gate = of(2, dues=True)
    assert ended(put(gate, None, at(stepped, -HOUR), at(stepped, -HOUR))) == [("count", 2), ("timeout", 1)]
    over = entry(9, group="e", due=at(stepped, -HOUR), ends=True)
    assert ended(buffer.insert_and_seal(ns, [over], gate).batches) == [("until", 1)]


@BOTH
def test_a_time_counts_from_the_first_record_or_from_the_one_that_gives_it(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    put(DUES, None, group="first")
    put(DUES, None, group="last")
    put(DUES, None, group="over")
    stepped.later(WHILE)
    put(DUES, after("first", 2 * WHILE), group="first")
    put(DUES, after("last", 2 * WHILE), group="last")
    assert ended(put(DUES, after("first", WHILE), None, group="over")) == [("timeout", 2)]
    assert buffer.due(ns, DUES) == []
    stepped.later(WHILE)
    assert [batch.group for batch in buffer.due(ns, DUES)] == ["first"]
    stepped.later(WHILE)
    assert [batch.group for batch in buffer.due(ns, DUES)] == ["last"]


@BOTH
def test_a_record_takes_the_deadline_away_and_a_time_of_the_gate_stays(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    put(DUES, at(stepped, WHILE))
    put(DUES, EntryDue("never"))
    put(DUES, at(stepped, HOUR), EntryDue("never"), group="timed")
    stepped.later(WHILE)
    assert buffer.due(ns, DUES) == []
    timed = of(100, dues=True, after_first=HOUR, after_last=WHILE / 2)
    assert put(timed, None, group="timed") == []
    stepped.later(WHILE / 2)
    assert [batch.group for batch in buffer.due(ns, timed)] == ["timed"]


@BOTH
def test_a_deadline_leaves_with_its_record_and_stays_with_one_that_is_open(
    buffer: Any, ns: str, stepped: Stepped, put: Put
) -> None:
    gate = of(2, dues=True)
    assert ended(put(gate, at(stepped, WHILE), None, None)) == [("count", 2)]
    assert ended(put(gate, None, None, at(stepped, WHILE), group="h")) == [("count", 2)]
    stepped.later(WHILE)
    assert [(batch.group, *ended([batch])) for batch in buffer.due(ns, gate)] == [("h", ("timeout", 1))]
    assert ended([buffer.seal(ns, "g", gate)]) == [("manual", 1)]


@BOTH
def test_without_dues_a_gate_knows_no_deadline_of_a_record(buffer: Any, ns: str, stepped: Stepped, put: Put) -> None:
    put(DUES, at(stepped, WHILE))
    assert put(of(100), None) == []
    assert put(of(100), at(stepped, -HOUR), group="h") == []
    stepped.later(WHILE)
    assert (buffer.due(ns, of(100)), buffer.due(ns, DUES)) == ([], [])


@BOTH
def test_the_last_deadline_is_the_end_of_the_year_9999(buffer: Any, ns: str, put: Put) -> None:
    assert put(DUES, EntryDue("epoch", LATEST_DUE), EntryDue("last", 10_000 * 366 * 86_400 * 1_000_000)) == []
    assert buffer.due(ns, DUES) == []
    assert ended(put(DUES, EntryDue("first", -10_000 * 366 * 86_400 * 1_000_000))) == [("timeout", 3)]


@BOTH
def test_what_is_removed_has_no_deadline(buffer: Any, ns: str, stepped: Stepped, put: Put) -> None:
    put(DUES, at(stepped, WHILE), at(stepped, WHILE))
    assert buffer.remove_all(ns) == 2
    put(DUES, None)
    stepped.later(WHILE)
    assert buffer.due(ns, DUES) == []


@pytest.mark.parametrize("since", ["first", "last"])
def test_packs_that_become_rows_keep_the_deadline(buffer: Any, ns: str, stepped: Stepped, since: Any) -> None:
    packs(buffer, ns)(DUES, None, after(since, WHILE))
    assert buffer.insert_and_seal(ns, entries(7, group="h"), DUES).batches == []
    assert rows(buffer, ns)(DUES, None) == []
    stepped.later(WHILE)
    assert ended(buffer.due(ns, DUES)) == [("timeout", 3)]
    assert keys(buffer.get_data(ns))[-1] == "m0"
