"""The variance and the standard deviation: those of exact fractions, in any batches, over restarts and in parts."""

import json
import random
from collections.abc import Callable
from fractions import Fraction
from math import sqrt
from typing import Any

import pytest

from sluicegate.streams import moments
from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation.compiled import group_code
from sluicegate.streams.aggregation.events import Unhandled
from tests.unit.aggregation.turning import Turned, an_agent, record
from tests.unit.statistics.summary import KEY, computed, cut, documents, merged

VARIANCE, DEVIATION = Reducer("v", "variance", "n"), Reducer("d", "stddev", "n")
DISTRIBUTIONS: dict[str, Callable[[random.Random], Any]] = {
    "uniform": lambda chance: chance.uniform(-1, 1),
    "far from zero": lambda chance: 1e9 + chance.random(),
    "heavy tail": lambda chance: chance.paretovariate(1.1),
    "integers": lambda chance: chance.randint(-1000, 1000),
    "large integers": lambda chance: 10**15 + chance.randint(0, 9),
    "beyond the doubles": lambda chance: 10**400 + chance.randint(0, 9),
    "constant": lambda chance: 0.1,
    "two signs": lambda chance: chance.choice([-1e150, 1e150]),
}


def exact(items: list[Any]) -> float:
    """The variance of a sample."""
    values = [Fraction(item) for item in items]
    mean = sum(values) / len(values)
    return float(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_it_is_the_variance_of_exact_fractions_in_any_batches_and_parts(name: str) -> None:
    chance = random.Random(name)
    for many in (2, 3, 10, 200):
        items = [DISTRIBUTIONS[name](chance) for _ in range(many)]
        wanted = exact(items)
        assert computed(VARIANCE, items, chance) == pytest.approx(wanted, rel=1e-9)
        assert merged(VARIANCE, cut(items, chance)) == pytest.approx(wanted, rel=1e-9)
        assert computed(DEVIATION, items, chance) == pytest.approx(sqrt(wanted), rel=1e-9)


def test_one_value_has_none() -> None:
    assert computed(VARIANCE, [5], random.Random(1)) is None
    assert merged(DEVIATION, [[5], []]) is None


def test_equal_values_have_no_variance_at_all() -> None:
    assert computed(VARIANCE, [0.1] * 50, random.Random(1)) == 0.0
    assert merged(VARIANCE, [[0.1] * 7, [], [0.1] * 5]) == 0.0


def test_restarts_and_batches_change_no_bit() -> None:
    items = [random.Random(5).uniform(-1, 1e6) for _ in range(100)]
    assert len({computed(VARIANCE, items, random.Random(seed)) for seed in range(10)}) == 1


def test_what_is_no_number_does_not_count_where_a_field_may_be_missing() -> None:
    items = [1, None, True, "2", [3], {"n": 4}, 5.0, 9]
    assert computed(VARIANCE, items, random.Random(1), on_missing="ignore") == pytest.approx(exact([1, 5, 9]))
    assert merged(VARIANCE, [items[:3], items[3:]], on_missing="ignore") == pytest.approx(exact([1, 5, 9]))
    assert computed(VARIANCE, [None, "x"], random.Random(1), on_missing="ignore") is None


@pytest.mark.parametrize(
    "numbers", [(1e308, -1e308), (10**400, 1), (-(10**400), 10**400, 1), (1, 0.5, 10**4299), (0, 1.7e308, -1.7e308)]
)
def test_a_variance_beyond_the_doubles_is_an_overflow_and_the_loop_goes_on(numbers: tuple[Any, ...]) -> None:
    turned = Turned(an_agent(Aggregation(count=len(numbers), compute=(VARIANCE, DEVIATION))))
    for n, value in enumerate(documents(numbers)):
        turned.accept([record(n, KEY, value)], 1.0)
        letters = turned.groups.events
        if n < len(numbers) - 1:
            turned.commit(1.0)
            turned.restore()
    [letter] = letters
    assert isinstance(letter, Unhandled)
    assert letter.reason == "overflow"
    assert "give v and d beyond the range of a double" in letter.error


def test_variance_and_deviation_of_one_field_share_what_they_keep() -> None:
    rule = Turned(an_agent(Aggregation(count=5, compute=(VARIANCE, DEVIATION)))).rule
    assert rule.plan.blank == (0, None, 0.0, 0.0)


@pytest.mark.parametrize("on_missing", ["dead-letter", "ignore"])
def test_a_group_ends_when_its_deviation_is_large_enough(on_missing: Any) -> None:
    rule = Aggregation(until="group.d > 2", compute=(DEVIATION,), on_missing=on_missing)
    turned = Turned(an_agent(rule))
    turned.accept([record(n, KEY, json.dumps({"n": n * n}).encode()) for n in range(6)], 1.0)
    turned.commit(1.0)
    assert [(fire[1], fire[2]) for fire in turned.fires[KEY]] == [("until", 3), ("until", 2)]


def test_twin_the_slots_of_a_deviation_are_not_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop has no code for the value. With the code of a value that is kept as it is, groups end elsewhere."""
    monkeypatch.setattr(group_code, "kind_of", lambda reducer: moments_as_values(reducer))
    with pytest.raises(AssertionError):
        test_a_group_ends_when_its_deviation_is_large_enough("dead-letter")


def moments_as_values(reducer: Reducer) -> Any:
    from sluicegate.streams.reducers import kind_of

    return kind_of(reducer)._replace(keeps_values=True)


def test_twin_parts_that_are_added_without_their_distance_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def added(place: Any) -> Any:
        def merge(state: Any, other: Any) -> None:
            state[place.at] += other[place.at]
            state[place.at + 3] += other[place.at + 3]

        return merge

    monkeypatch.setattr("sluicegate.streams.aggregation.merging.parts_of", lambda reducer, merged: _with(added))
    assert merged(VARIANCE, [[1, 2], [11, 12]]) != pytest.approx(exact([1, 2, 11, 12]))


def _with(merge: Any) -> Any:
    from sluicegate.streams.reducers import REDUCERS

    return REDUCERS["variance"]._replace(slots=moments.MOMENTS._replace(merge=merge))
