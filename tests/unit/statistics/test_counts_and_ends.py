"""`count_by`, `first_n` and `last_n` are exact: those of plain Python, in any batches, over restarts and in parts."""

import json
import random
from collections import Counter
from typing import Any

import pytest

from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation.layout import BYTES
from tests.unit.aggregation.turning import Turned, an_agent, record
from tests.unit.statistics.summary import KEY, computed, cut, documents, held, merged

COUNTS = Reducer("c", "count_by", "n")
VALUES = ("a", "b", "é", "", 1, "1", 1.0, 2.5, True, "true", {"x": 1, "b": [2]}, [1], 10**30)


def first(n: int) -> Reducer:
    return Reducer("f", "first_n", "n", option=n)


def last(n: int) -> Reducer:
    return Reducer("l", "last_n", "n", option=n)


def text(value: Any) -> str:
    """As the key of a group."""
    if isinstance(value, str):
        return value
    if value == 1 and value is not True:
        return "1"
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def drawn(chance: random.Random, many: int) -> list[Any]:
    return [chance.choice(VALUES) for _ in range(many)]


@pytest.mark.parametrize("seed", range(8))
def test_they_are_those_of_plain_python(seed: int) -> None:
    chance = random.Random(seed)
    items = drawn(chance, chance.choice([1, 2, 7, 60]))
    counts = dict(sorted(Counter(map(text, items)).items(), key=lambda pair: pair[0].encode()))
    assert computed(COUNTS, items, chance) == merged(COUNTS, cut(items, chance)) == counts
    for n in (1, 3, 1000):
        assert computed(first(n), items, chance) == merged(first(n), cut(items, chance)) == items[:n]
        assert computed(last(n), items, chance) == merged(last(n), cut(items, chance)) == items[-n:]


@pytest.mark.parametrize("seed", range(4))
def test_parts_that_are_merged_in_another_order_give_the_same(seed: int) -> None:
    chance = random.Random(seed)
    parts = cut(drawn(chance, 40), chance)
    for reducer in (COUNTS, first(4), last(4)):
        assert merged(reducer, parts, order=chance.sample(range(len(parts)), len(parts))) == merged(reducer, parts)


def test_the_result_has_the_values_in_their_order() -> None:
    assert list(computed(COUNTS, ["z", "a", 3, "a"], random.Random(1))) == ["3", "a", "z"]


def test_a_value_that_is_missing_does_not_count_where_it_may_be_missing() -> None:
    items = [1, None, "x", None, "x"]
    assert computed(COUNTS, items, random.Random(1), on_missing="ignore") == {"1": 1, "x": 2}
    assert computed(first(2), items, random.Random(1), on_missing="ignore") == [1, "x"]
    assert computed(last(2), items, random.Random(1), on_missing="ignore") == ["x", "x"]
    for reducer, nothing in ((COUNTS, {}), (first(2), []), (last(2), [])):
        assert computed(reducer, [None, None], random.Random(1), on_missing="ignore") == nothing


@pytest.mark.parametrize("reducer", [COUNTS, first(2), last(2)], ids=lambda reducer: reducer.kind)
@pytest.mark.parametrize("merges", [False, True])
def test_a_bag_that_is_made_of_its_items_is_the_same(reducer: Reducer, merges: bool) -> None:
    chance = random.Random(3)
    for many in range(6):
        form, bag, size = held(reducer, drawn(chance, many), merges)
        copy = form.empty()
        assert sum(form.put(copy, item) or 0 for item in form.items(bag)) == size
        assert (copy, form.items(copy)) == (bag, form.items(bag))
        again = form.empty()
        form.extend(again, form.items(bag))
        assert again == bag


@pytest.mark.parametrize("reducer", [COUNTS, first(3), last(3)], ids=lambda reducer: reducer.kind)
def test_the_bytes_of_a_group_are_those_of_what_it_holds_also_after_a_restart(reducer: Reducer) -> None:
    chance = random.Random(7)
    turned = Turned(an_agent(Aggregation(count=1000, compute=(reducer,))))
    for number in range(60):
        turned.accept([record(number, KEY, documents([chance.choice(VALUES)])[0])], 1.0)
        [state], [[bag]] = turned.groups.states.values(), turned.groups.bags.values()
        form = turned.rule.plan.bags[0].form
        size = sum(form.put(copy, item) or 0 for copy in [form.empty()] for item in form.items(bag))
        assert state[BYTES] == turned.groups.bytes == size
        if chance.random() < 0.3:
            turned.commit(1.0)
            turned.restore()


@pytest.mark.parametrize("reducer", [COUNTS, first(3), last(3)], ids=lambda reducer: reducer.kind)
def test_a_compacted_log_holds_the_same_group(reducer: Reducer, monkeypatch: pytest.MonkeyPatch) -> None:
    for constant in ("SLACK", "SLICE"):
        monkeypatch.setattr(f"sluicegate.streams.aggregation.durable.changelog.{constant}", 1)
    chance = random.Random(11)
    items = drawn(chance, 200)
    turned = Turned(an_agent(Aggregation(count=len(items), compute=(reducer,))))
    for number, value in enumerate(documents(items)):
        turned.accept([record(number, KEY, value)], 1.0)
        turned.commit(1.0)
        turned.restore()
    assert turned.dropped
    assert turned.fires[KEY][0][-1][reducer.name] == computed(reducer, items, chance)


def test_very_many_values_end_the_group_at_its_limit_as_those_of_distinct_do() -> None:
    turned = Turned(an_agent(Aggregation(count=10_000, compute=(COUNTS,), max_bytes=20_000)))
    for start in range(0, 5_000, 500):
        turned.accept([record(n, KEY, b'{"n": "value %06d"}' % n) for n in range(start, start + 500)], 1.0)
        turned.commit(1.0)
    reasons = {fire[1] for fire in turned.fires[KEY]}
    assert reasons == {"limit"}
    for fire in turned.fires[KEY]:
        assert len(json.dumps(fire[-1])) < 20_000
    assert turned.refused == []


@pytest.mark.parametrize("reducer", [COUNTS, last(1)], ids=lambda reducer: reducer.kind)
def test_a_value_that_is_larger_than_a_group_may_be_is_refused_also_where_another_one_leaves(reducer: Reducer) -> None:
    turned = Turned(an_agent(Aggregation(count=10, compute=(reducer,), max_bytes=1_000)))
    small, large = documents(["s" * 900])[0], documents(["l" * 1_100])[0]
    turned.accept([record(0, KEY, small), record(1, KEY, large), record(2, KEY, small)], 1.0)
    turned.commit(1.0)
    assert turned.refused == [(1, "too-large")]
    assert turned.groups.states[KEY][:3] == [2, 0, 2]


def test_last_n_keeps_a_group_below_its_limit_that_a_list_of_all_values_would_reach() -> None:
    values = documents(["x" * 200 + str(n) for n in range(50)])
    turned = Turned(an_agent(Aggregation(count=50, compute=(last(4),), max_bytes=1_000)))
    turned.accept([record(n, KEY, value) for n, value in enumerate(values)], 1.0)
    turned.commit(1.0)
    [fire] = turned.fires[KEY]
    assert fire[1] == "count"
