"""The protocol's model, searched exhaustively: it holds, and each protection is missed when it is gone."""

from collections import Counter
from functools import cache

import pytest

from tests.model.explore import Outcome, explore, told
from tests.model.setups import LIMITS, MUTANTS, SETUPS, Mutant
from tests.model.values import Setup

FAULTS = {
    "crash", "crash on a record", "claim by nobody", "late commit", "late copy", "error", "error after the write", "error bytes late",
    "commit the batch fenced", "commit the batch bytes late", "commit the batch reply lost", "commit the batch sent twice",
    "commit the expiry fenced", "commit the expiry bytes late", "commit the expiry reply lost", "commit the reports fenced",
    "commit the reports reply lost", "commit the mark fenced", "commit the mark bytes late", "commit the mark reply lost",
    "commit a dead letter", "acquit", "restore quiet", "save", "rewind", "inform", "claim loud",
}  # fmt: skip


@cache
def explored(setup: Setup) -> Outcome:
    """The outcome of a setup, searched once."""
    outcome = explore(setup)
    print(f"{setup.name}: {outcome.states} states, {outcome.steps} steps, {outcome.endings} endings, {outcome.seconds:.1f} s")
    return outcome


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_the_protocol_keeps_every_promise_in_every_reachable_state(setup: Setup) -> None:
    outcome = explored(setup)
    assert not outcome.promise, f"{outcome.promise}\n{told(outcome.trace)}"
    assert outcome.states > 1000


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.flag}-{mutant.setup.name}")
def test_a_missing_protection_breaks_its_promise(mutant: Mutant) -> None:
    outcome = explore(mutant.setup._replace(mutant=mutant.flag), mutant.promise)
    print(f"{mutant.flag}, {outcome.states} states: {outcome.promise}\n{told(outcome.trace)}")
    assert outcome.promise == mutant.promise


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.setup.name)
def test_a_known_limit_is_really_there(limit: Mutant) -> None:
    outcome = explore(limit.setup, limit.promise)
    print(f"{limit.setup.name}: {outcome.promise}\n{told(outcome.trace)}")
    assert outcome.promise == limit.promise


def test_every_kind_of_fault_was_taken() -> None:
    taken: Counter = Counter()
    for setup in SETUPS:
        taken += explored(setup).taken
    assert not FAULTS - set(taken)
