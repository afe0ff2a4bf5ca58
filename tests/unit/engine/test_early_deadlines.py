"""Early results of groups with a deadline from the data: an early result has a time of its own."""

from pathlib import Path
from typing import Any

import pytest

from sluicegate.streams.agent import DataDeadline, Emit, Reducer
from sluicegate.streams.aggregation import accept as accepting
from sluicegate.streams.aggregation import groups as groups_module
from sluicegate.streams.aggregation.durable.paging import Paging, ends_of
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.testing.driver import TestDriver
from tests.unit.aggregation.turning import record
from tests.unit.engine.test_data_deadlines import AT, BEGIN, HEAD, rule_of, taken

EVERY = Emit(every=10.0)


def driver(folder: Path, rule: str, emit: str) -> TestDriver:
    (folder / "app.yaml").write_text(HEAD.replace("RULE", rule) + f"    emit: {emit}\n")
    return TestDriver(folder / "app.yaml", partitions=1)


def results(shop: TestDriver) -> list[tuple[Any, ...]]:
    names = ("reason", "n", "revision", "final")
    return [(output.key, *(output.value[name] for name in names)) for output in shop.read("out")]


@pytest.mark.parametrize("hot", ["", "hot_groups: 1, "])
def test_an_early_result_and_the_deadline_come_at_their_own_times(tmp_path: Path, hot: str) -> None:
    with driver(tmp_path, f"{hot}timeout: {{at: due, unit: s}}", "{every: 10s}") as shop:
        shop.send("in", {"due": BEGIN + 25}, "moves")
        shop.send("in", {"due": BEGIN + 15}, "stays")
        shop.send("in", {"due": BEGIN + 5}, "short")
        shop.advance(4)
        assert results(shop) == []
        shop.advance(1)
        assert results(shop) == [("short", "timeout", 1, 1, True)]
        shop.advance(5)
        assert sorted(results(shop)) == [("moves", "early", 1, 1, False), ("stays", "early", 1, 1, False)]
        shop.advance(2)
        shop.send("in", {"due": BEGIN + 60}, "moves")  # its early result is due at 22, and its deadline at 60
        shop.advance(3)
        assert results(shop) == [("stays", "timeout", 1, 2, True)]
        shop.advance(6)
        assert results(shop) == []
        shop.advance(1)
        assert results(shop) == [("moves", "early", 2, 2, False)]
        shop.advance(37)
        assert results(shop) == []
        shop.advance(1)
        assert results(shop) == [("moves", "timeout", 2, 3, True)]


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("emit", [EVERY, Emit(count=1), Emit(on="change")])
def test_a_deadline_that_passed_is_the_last_result_and_no_early_one(
    emit: Emit, careful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if careful:
        monkeypatch.setattr(accepting, "loop_of", lambda *args: None)
    groups = Groups(rule_of(AT, emit=emit))
    assert taken(groups, b'{"due": 99}') == [("timeout", 1)]
    assert (groups.states, groups.early.past, groups.early.next_due()) == ({}, {}, float("inf"))


def test_a_heap_that_is_made_anew_leaves_the_time_of_an_early_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "STALE", 0)
    groups = Groups(rule_of(AT, emit=EVERY))
    taken(groups, b'{"due": 900}', b'{"due": 800}', b'{"due": 700}')
    groups.early.tell(b"k", 110.0)
    taken(groups, b'{"due": 600}', now=112.0, first=3)
    assert len(groups.heap) == 1  # it was made anew
    assert (groups.early.due_at(b"k"), groups.next_due(), groups.due(groups.states[b"k"])) == (122.0, 122.0, 600.0)


RULES: dict[str, tuple[DataDeadline | None, DataDeadline | None]] = {
    "same": (AT, AT),
    "gets a deadline": (None, AT),
    "loses it": (AT, None),
    "never": (None, None),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("emit", [None, EVERY])
@pytest.mark.parametrize("bags", [0, 1, 3])
def test_a_row_of_a_cold_group_has_its_early_results_behind_its_deadline(
    name: str, emit: Emit | None, bags: int
) -> None:
    """An entry of early results has three parts, as the items of three bags have."""
    (before, after), compute = RULES[name], tuple(Reducer(f"dues{number}", "collect", "due") for number in range(bags))
    old = Groups(rule_of(before, emit=Emit(count=1), compute=compute))
    new = Groups(rule_of(after, emit=emit, compute=compute))
    records = [record(number, key, b'{"due": 900}') for number, key in enumerate((b"cold", b"hot"))]
    accepting.accept(old, records, 100.0)
    old.touched.clear()
    paging = Paging(old)
    paging.most = 1
    [row] = paging.moved(100.0).put
    assert Paging(new).warm([row], new) == [row.key]
    state = new.states[row.key]
    assert (new.early.past[row.key], len(state)) == ((1, 1, None), new.width)
    assert new.rule.values(state, new.bags.get(row.key, [])) == {reducer.name: [900] for reducer in compute}
    assert new.due(state) == (900.0 if before == after == AT else float("inf"))


def test_each_rule_says_otherwise_when_its_cold_groups_end() -> None:
    rules: list[Rule] = [
        rule_of(deadline, emit=emit) for deadline in (None, AT) for emit in (None, EVERY, Emit(every=1.0))
    ]
    assert len({ends_of(Groups(rule)) for rule in rules}) == len(rules)
