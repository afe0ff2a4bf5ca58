"""The faults of a soak follow from its seed, are many, and leave out no kind."""

from collections import defaultdict
from itertools import pairwise

import pytest

from tests.soak.faults import Faults
from tests.soak.plan import Kind, Step, kinds, plan

FIELDS = [("redis", 1), ("postgresql", 3), ("sqlite", 1)]


@pytest.mark.parametrize(("store", "brokers"), FIELDS)
def test_ninety_seconds_have_more_than_seventy_faults_and_every_kind(store: str, brokers: int) -> None:
    known = kinds(store, brokers)
    for seed in range(50):
        steps = plan(seed, 90.0, 1.05, known)
        assert len(steps) > 75
        assert {step.kind for step in steps} == set(known)


def test_a_seed_gives_the_same_faults_again_and_another_one_others() -> None:
    known = kinds("redis", 1)
    assert plan(7, 90.0, 1.1, known) == plan(7, 90.0, 1.1, known)
    assert plan(7, 90.0, 1.1, known) != plan(8, 90.0, 1.1, known)
    assert plan(7, 180.0, 1.1, known)[:70] == plan(7, 90.0, 1.1, known)[:70]


def test_a_target_meets_one_fault_at_a_time() -> None:
    known = kinds("redis", 3)
    by_target: dict[str, list[Step]] = defaultdict(list)
    for step in plan(3, 1200.0, 1.1, known):
        by_target[step.target].append(step)
    for steps in by_target.values():
        for before, after in pairwise(steps):
            assert before.at + before.seconds + known[before.kind].rest <= after.at


def test_what_has_a_greater_weight_comes_more_often() -> None:
    known = {"often": Kind(9, ["a", "b"], rest=0.0), "seldom": Kind(1, ["c"], rest=0.0)}
    names = [step.kind for step in plan(1, 1000.0, 1.0, known)]
    assert names.count("often") > 4 * names.count("seldom") > 0


@pytest.mark.parametrize(("store", "brokers"), FIELDS)
def test_every_kind_can_be_carried_out(store: str, brokers: int) -> None:
    class Field:
        crew = None

    assert set(kinds(store, brokers, disk=True)) <= set(Faults(Field(), None).known)  # type: ignore[arg-type]
