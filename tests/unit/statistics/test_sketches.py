"""`percentile`, `approx_distinct` and `top` are within their stated errors, in any batches, over restarts and in
parts, and their bags are bounded."""

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import ceil, inf
from typing import Any

import pytest

from sluicegate.schemas.json import encode
from sluicegate.streams import cardinality, quantiles
from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation.events import Unhandled
from sluicegate.streams.aggregation.layout import BYTES
from tests.unit.aggregation.turning import Turned, an_agent, record
from tests.unit.statistics.summary import KEY, computed, cut, documents, held, merged

DISTRIBUTIONS: dict[str, Callable[[random.Random], Any]] = {
    "uniform": lambda chance: chance.uniform(-100, 100),
    "log normal": lambda chance: chance.lognormvariate(3, 1),
    "heavy tail": lambda chance: chance.paretovariate(1.1),
    "integers": lambda chance: chance.randint(0, 10**6),
    "tiny": lambda chance: chance.random() * 1e-300,
    "constant": lambda chance: 0.1,
    "mostly zero": lambda chance: chance.choice([0, 0, 0, 5, -5]),
}


def of_percentile(p: float) -> Reducer:
    return Reducer("p", "percentile", "n", option=p)


def of_top(n: int) -> Reducer:
    return Reducer("t", "top", "n", option=n)


ABOUT = Reducer("a", "approx_distinct", "n")


# -- percentiles -------------------------------------------------------------------------------------------------------


def exact(items: list[Any], p: float) -> Any:
    return sorted(items)[max(1, ceil(Fraction(str(p)) * len(items) / 100)) - 1]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_percentile_is_at_most_0_8_percent_nearer_to_zero(name: str) -> None:
    chance = random.Random(name)
    for many in (1, 2, 99, 1000):
        items = [DISTRIBUTIONS[name](chance) for _ in range(many)]
        for p in (0, 50, 99, 99.9, 100):
            value, wanted = computed(of_percentile(p), items, chance), exact(items, p)
            assert abs(wanted) * (1 - 1 / 128) <= abs(value) <= abs(wanted)
            assert value * wanted >= 0
            assert merged(of_percentile(p), cut(items, chance)) == value


def test_integers_up_to_255_are_exact() -> None:
    for number in range(-255, 256):
        assert quantiles.value_of(quantiles.bucket_of(number), 0) == number


def test_what_is_no_number_does_not_count_where_a_field_may_be_missing() -> None:
    items = [None, True, "9", 3, [1], 5.0, 4]
    assert computed(of_percentile(50), items, random.Random(1), on_missing="ignore") == 4.0
    assert computed(of_percentile(50), [None, "x"], random.Random(1), on_missing="ignore") is None


def test_percentiles_of_one_field_share_their_buckets() -> None:
    compute = (of_percentile(50), Reducer("q", "percentile", "n", option=99))
    turned = Turned(an_agent(Aggregation(count=3, compute=compute)))
    assert len(turned.rule.plan.bags) == 1
    turned.accept([record(n, KEY, value) for n, value in enumerate(documents([1, 2, 200]))], 1.0)
    turned.commit(1.0)
    assert turned.fires[KEY][0][-1] == {"p": 2.0, "q": 200.0}


def test_numbers_of_every_size_double_the_error_and_not_the_buckets() -> None:
    chance = random.Random(3)
    items = [chance.choice([-1, 1]) * 2.0 ** chance.uniform(-1070, 1020) for _ in range(20_000)]
    form, bag, size = held(of_percentile(50), items, merges=False)
    assert len(bag) <= quantiles.MOST_BUCKETS
    assert size == len(bag) * quantiles.ENTRY
    error = 2.0 ** (bag.shift - quantiles.FINE)
    for value in items[:500]:
        bucket = quantiles._joined(quantiles.bucket_of(value), bag.shift)
        answer = abs(quantiles.value_of(bucket, bag.shift))
        assert answer <= abs(value) < answer * max(1 + error, 2 ** (error + 1))
    again = form.empty()
    form.extend(again, chance.sample(form.items(bag), len(bag)))
    assert (again.counts, again.shift) == (bag.counts, bag.shift)


@pytest.mark.parametrize("seed", range(3))
def test_coarse_parts_that_are_merged_hold_the_same_as_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    items = [2.0 ** chance.uniform(-500, 500) for _ in range(4_000)]
    form, whole, _ = held(of_percentile(50), items, merges=True)
    joined = form.empty()
    for part in cut(items, chance):
        _, bag, _ = held(of_percentile(50), part, merges=True)
        form.extend(joined, form.items(bag))
    assert whole.shift > 0
    assert (joined.counts, joined.shift) == (whole.counts, whole.shift)


@pytest.mark.parametrize("value", [10**400, -(10**4298)], ids=["large", "small"])
def test_a_percentile_beyond_the_doubles_is_an_overflow(value: int) -> None:
    turned = Turned(an_agent(Aggregation(count=1, compute=(of_percentile(50),))))
    turned.accept([record(0, KEY, documents([value])[0])], 1.0)
    [letter] = turned.groups.events
    assert isinstance(letter, Unhandled)
    assert letter.reason == "overflow"
    assert quantiles.value_of(quantiles.bucket_of(10**400), 0) == inf


# -- about how many ----------------------------------------------------------------------------------------------------


def test_no_value_and_few_values_are_counted_almost_exactly() -> None:
    assert computed(ABOUT, [None], random.Random(1), on_missing="ignore") == 0
    assert computed(ABOUT, [1, 1.0, True, "1", {"a": 1, "b": 2}, {"b": 2, "a": 1}], random.Random(1)) == 4


@pytest.mark.parametrize("many", [10, 100, 300, 3_000, 30_000])
def test_the_number_of_different_values_is_within_five_percent(many: int) -> None:
    counts = Counter[int]()
    for start in range(5):
        ranks: dict[int, int] = {}
        for number in range(many):
            item = cardinality.register_of(f"{start} {number}")
            ranks[item >> 6] = max(ranks.get(item >> 6, 0), item & 63)
        value = cardinality.estimate(Counter(ranks.values()))
        assert abs(value - many) <= many * 0.05
        counts[start] = round(value)
    assert abs(sum(counts.values()) / 5 - many) <= many * 0.03


def test_repeats_and_the_order_change_nothing_and_parts_hold_the_same_as_the_whole() -> None:
    chance = random.Random(2)
    items = [f"value {chance.randint(0, 2_000)}" for _ in range(4_000)]
    value = computed(ABOUT, items, chance)
    assert abs(value - len(set(items))) <= 100
    assert merged(ABOUT, cut(chance.sample(items, len(items)), chance)) == value


def test_registers_of_every_value_have_a_bounded_size() -> None:
    form, bag, size = held(ABOUT, [f"value {n}" for n in range(20_000)], merges=False)
    assert size == cardinality.REGISTERS
    assert len(bag) <= cardinality.REGISTERS == len(bag.all)
    again = form.empty()
    form.extend(again, form.items(bag))
    assert again.ranks() == bag.ranks()


# -- the most frequent ones --------------------------------------------------------------------------------------------


def test_few_values_are_ranked_exactly() -> None:
    chance = random.Random(4)
    items = [f"v{min(int(chance.paretovariate(0.7)), 90)}" for _ in range(2_000)]
    ranked = sorted(Counter(items).items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    wanted = [{"value": value, "count": count, "error": 0} for value, count in ranked]
    assert computed(of_top(5), items, chance) == merged(of_top(5), cut(items, chance)) == wanted


@pytest.mark.parametrize("seed", range(4))
def test_many_values_are_ranked_within_the_error(seed: int) -> None:
    chance = random.Random(seed)
    items = [f"v{int(chance.paretovariate(0.6))}" for _ in range(4_000)]
    counts = Counter(items)
    for item in (computed(of_top(3), items, chance), merged(of_top(3), cut(items, chance))):
        assert 0 < item[0]["error"] <= len(items) / 101
        for entry in item:
            assert entry["count"] <= counts[entry["value"]] <= entry["count"] + entry["error"]
        assert {entry["value"] for entry in item} == {value for value, _ in counts.most_common(3)}


def test_very_many_values_are_bounded_and_their_bytes_are_counted() -> None:
    chance = random.Random(9)
    turned = Turned(an_agent(Aggregation(count=100_000, compute=(of_top(2),))))
    for number in range(0, 3_000, 50):
        values = documents([f"value {chance.randint(0, 10**9)}" for _ in range(50)])
        turned.accept([record(number + n, KEY, value) for n, value in enumerate(values)], 1.0)
        [[bag]] = turned.groups.bags.values()
        assert len(bag) <= 100
        assert turned.groups.states[KEY][BYTES] == sum(len(value) + 16 for value in bag.counts)
        turned.commit(1.0)
        turned.restore()
        [[restored]] = turned.groups.bags.values()
        assert (restored.counts, restored.lost) == (bag.counts, bag.lost)


@pytest.mark.parametrize("reducer", [of_percentile(99), ABOUT, of_top(2)], ids=lambda reducer: reducer.kind)
def test_a_compacted_log_holds_the_same_group_and_the_same_bytes(
    reducer: Reducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant in ("SLACK", "SLICE"):
        monkeypatch.setattr(f"sluicegate.streams.aggregation.durable.changelog.{constant}", 1)
    chance = random.Random(11)
    items = [chance.randint(0, 10**6) for _ in range(400)]
    turned = Turned(an_agent(Aggregation(count=len(items), compute=(reducer,))))
    whole = Turned(an_agent(Aggregation(count=len(items), compute=(reducer,))))
    for number, value in enumerate(documents(items)):
        for fold in (turned, whole):
            fold.accept([record(number, KEY, value)], 1.0)
            fold.commit(1.0)
        turned.restore()
        form = whole.rule.plan.bags[0].form
        bags = [fold.groups.bags[KEY][0] for fold in (turned, whole) if KEY in fold.groups.bags]
        assert not bags or encode(form.items(bags[0])) == encode(form.items(bags[1]))
    assert turned.dropped
    assert turned.fires == whole.fires
