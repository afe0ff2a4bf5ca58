"""The bounds of a table: bytes are counted as rows come and go, and a number of changes is no bound."""

from pathlib import Path

import pytest

from sluicegate.schemas.json import encode
from sluicegate.streams.agent import Reducer
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.layout import BYTES
from tests.unit.aggregation.turning import record
from tests.unit.tables.scene import Half, an_agent, compiled
from tests.unit.tables.test_changes import driver, newest, put


def changed(before: object, after: object) -> bytes:
    return encode({"op": "u", "before": before, "after": after})


def test_collected_values_take_bytes_and_give_them_back() -> None:
    _, _, rule = compiled(an_agent([Reducer("amounts", "collect", "amount")], where=""))
    half = Half(rule)
    row = {"amount": 5}
    accept(half.groups, [record(0, b"a", changed(None, row))], 0.0)
    one = half.groups.states[b"a"][BYTES]
    for offset in (1, 2):
        accept(half.groups, [record(offset, b"a", changed(None, row))], 0.0)
    assert half.groups.bytes == half.groups.states[b"a"][BYTES] == 3 * one > 0
    for offset in (3, 4):
        accept(half.groups, [record(offset, b"a", changed(row, None))], 0.0)
    assert half.groups.bytes == half.groups.states[b"a"][BYTES] == one
    accept(half.groups, [record(5, b"a", changed(row, None))], 0.0)
    assert (half.groups.bytes, half.groups.states) == (0, {})


@pytest.mark.parametrize("crash", [False, True])
def test_a_group_of_many_changes_does_not_end(crash: bool) -> None:
    """`max_items` bounds records of other groups: 100,000 unless it is written."""
    _, _, rule = compiled(an_agent([Reducer("n", "count")], where="", max_items=50))
    half = Half(rule)
    for offset in range(120):
        accept(half.groups, [record(offset, b"a", changed(None, {"id": offset}))], 0.0)
    list(half.groups.drain())
    half.commit(120)
    if crash:
        half.restore()
        assert list(half.groups.judge()) == []
    assert half.rule.values(half.groups.states[b"a"], []) == {"n": 120}


def test_a_row_of_a_group_that_is_not_open_cannot_be_taken_back() -> None:
    _, _, rule = compiled(an_agent([Reducer("n", "count")], where=""))
    half = Half(rule)
    accept(
        half.groups, [record(0, b"a", changed({"id": 1}, None)), record(1, b"b", changed({"id": 1}, {"id": 2}))], 0.0
    )
    assert [getattr(event, "reason", "") for event in half.groups.drain()] == ["not-added", "not-added", "early"]
    assert half.rule.values(half.groups.states[b"b"], []) == {"n": 1}


def test_bytes_of_rows_that_were_not_in_memory_count() -> None:
    rule, keeping, _ = compiled(an_agent([Reducer("n", "count")], where=""))
    half = Half(rule)
    rows = [record(n, b"%d" % n, changed(None, {"customer": "a", "note": "x" * n})) for n in range(8)]
    keeping.read(half.groups, rows)
    whole = half.groups.bytes
    half.commit(8)
    paging = half.changelog.paging
    paging.most = 1
    cold = paging.moved(0.0).put
    assert (len(cold), len(half.groups.states)) == (7, 1)
    assert half.groups.bytes < whole / 2
    half.groups.touched.clear()
    paging.warm(cold, half.groups)
    assert half.groups.bytes == sum(state[BYTES] for state in half.groups.states.values()) == whole


def test_bytes_of_rows_in_memory_are_bounded(tmp_path: Path) -> None:
    with driver(tmp_path, "max_bytes: 2kB, max_buffered_bytes: 3kB, ", partitions=1) as shop:
        for id in range(4):
            put(shop, "c", id, "a", 1, note="x" * 500)
        assert newest(shop)["a"][0] == 4
        for id in range(4):
            put(shop, "u", id, "a", 2, note="y" * 600)
        assert newest(shop)["a"][:2] == (4, 8)
        for id in range(4, 8):
            put(shop, "c", id, "a", 1, note="x" * 500)
        assert "max_buffered_bytes" in "\n".join(shop.troubles())
