"""Panes that are rows of the store: the same hopping windows close with the same records, and the same records are
late, as in a naive oracle and as when all panes are in memory. One to three panes stay hot."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.windows.test_same_cold import PagedTurned, as_the_oracle, as_when_hot, limits
from tests.unit.windows.test_same_hopping import a_hopping, expected
from tests.unit.windows.test_same_sessions import COMPUTE, crowded, told
from tests.unit.windows.test_same_windows import a_log, played

LOGS = 200

pytestmark = pytest.mark.usefixtures("small")


def cases(kind: str) -> Any:
    for seed in range(LOGS):
        chance = random.Random(f"{kind} {seed}")
        yield seed, chance, a_hopping(chance), crowded(a_log(chance), chance)


def test_any_cut_and_any_crash_give_the_windows_of_the_oracle() -> None:
    evicted = 0
    for seed, chance, window, steps in cases("oracle"):
        most = chance.choice([4, 10_000, 10_000])
        oracle = expected(window, steps, most)
        paged = PagedTurned(window, chance.randint(1, 3), view=told, compute=COMPUTE, max_items=most)
        partition = played(paged, steps, chance)
        evicted += as_the_oracle(partition, oracle, seed)
    assert evicted > 2 * LOGS


@pytest.mark.parametrize("kind", ["limits", "skip", "at_most", "never"])
def test_what_is_cold_changes_no_result(kind: str) -> None:
    evicted = 0
    for seed, chance, window, steps in cases(kind):
        more = {"compute": COMPUTE}
        if kind == "limits":
            more |= {key: limit for key, limit in limits(chance).items() if key not in ("count", "emit", "compute")}
        if kind == "at_most":
            window = replace(window, idle=None, grace=1e6, at_most=window.size + chance.choice([5.0, 10.0]))
        if kind == "never":
            window = replace(window, at_most=None)
        window = replace(window, late="skip") if kind == "skip" else window
        evicted += as_when_hot(window, chance.randint(1, 3), steps, seed, view=told, **more)
    assert evicted > LOGS
