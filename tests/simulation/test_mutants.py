"""Each protection of the real code that is taken out is missed by the judge of some seed; with it the same seeds hold
(test_seeds)."""

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, mutated
from tests.simulation.run import run


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_judge_misses_what_was_taken_out(mutant: Mutant) -> None:
    with mutated(mutant):
        findings = run(mutant.plan).findings
    assert findings, f"seed {mutant.seed} of {mutant.kind} does not notice"
    assert not run(mutant.plan).findings
