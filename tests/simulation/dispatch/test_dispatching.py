"""The dispatcher keeps its promises under the faults of seeds: a fixed range, and one of the day. `make simulate` tries
many more."""

from collections import Counter

import pytest

from tests.selection import today
from tests.simulation.dispatch.mutants import MUTANTS, Mutant, mutated
from tests.simulation.dispatch.plan import KINDS
from tests.simulation.dispatch.run import run

EACH = 18
HELD = 900
"""Seeds from 0 on that held when they were run last, all in a row."""
FIRST = today() % (HELD // (3 * EACH)) * 3 * EACH


def all_hold(seeds: range) -> None:
    hits: Counter[str] = Counter()
    overlaps, failed = 0, []
    for seed in seeds:
        outcome = run(seed)
        hits += outcome.hits
        overlaps += outcome.overlaps
        if outcome.findings or outcome.weak:
            failed.append(
                f"seed {seed}: {outcome.weak} {outcome.findings[:3]}; alone: python -m tests.simulation --dispatch "
                f"--seed {seed}"
            )
    print(f"seeds {seeds[0]} to {seeds[-1]}, {overlaps} overlaps: {dict(hits.most_common())}")
    assert not failed, "\n".join(failed)
    assert overlaps


def test_every_row_and_timeout_is_sent_as_promised_under_the_faults_of_a_seed() -> None:
    all_hold(range(EACH))


@pytest.mark.parametrize("shard", range(3))
def test_the_seeds_of_the_day_hold(shard: int) -> None:
    all_hold(range(FIRST + shard * EACH, FIRST + (shard + 1) * EACH))


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_judge_misses_what_was_taken_out(mutant: Mutant) -> None:
    with mutated(mutant):
        assert run(mutant.plan).findings, f"seed {mutant.seed} of {mutant.kind} does not notice"
    assert not run(mutant.plan).findings


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_does_the_same(kind: str) -> None:
    assert run(5, kind).digest == run(5, kind).digest != run(6, kind).digest
