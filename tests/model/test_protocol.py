"""The protocol's model, searched exhaustively: it holds, and each protection is missed when it is gone."""

from collections.abc import Callable
from functools import cache

import pytest

from tests.model.explore import Outcome, explore, told
from tests.model.setups import LIMITS, MUTANTS, SETUPS, AnySetup, Mutant, rules

RunFile = Callable[[str, Callable[[], str]], str]
FAULTS = {
    "crash",
    "crash on a record",
    "claim by nobody",
    "late commit",
    "late copy",
    "error",
    "error after the write",
    "error bytes late",
    "commit the batch fenced",
    "commit the batch bytes late",
    "commit the batch reply lost",
    "commit the batch sent twice",
    "commit the expiry fenced",
    "commit the expiry bytes late",
    "commit the expiry reply lost",
    "commit the reports fenced",
    "commit the reports reply lost",
    "commit the mark fenced",
    "commit the mark bytes late",
    "commit the mark reply lost",
    "commit a dead letter",
    "clear_crash_mark",
    "restore quiet",
    "save",
    "rewind",
    "inform",
    "claim loud",
    "crash in the handler",
    "output refused",
    "late begin lands",
    "give up",
    "late emit refused",
    "emit reply lost",
    "cancel refused",
    "move",
    "sweep what was sent long ago",
    "mark refused",
    "late mark lands",
    "refused by its topic",
    "requeue",
    "late insert lands",
    "commit a row reply lost, written again",
    "complete refused",
    "take over",
    "late complete lands",
    "complete reply lost",
    "transaction timed out",
    "init reply lost",
    "late init lands",
    "end reply lost",
    "end refused",
    "late end lands",
    "late end refused",
    "late cursor refused",
    "row refused",
    "known to be sent",
    "end groups refused",
    "end groups reply lost",
    "late end groups lands",
    "expire a row",
    "late commit lands",
}


@cache
def explored(setup: AnySetup) -> Outcome:
    """The outcome of a setup, searched once."""
    outcome = explore(rules(setup), setup)
    print(
        f"{setup.name}: {outcome.states} states, {outcome.steps} steps, {outcome.endings} endings, "
        f"{outcome.seconds:.1f} s"
    )
    return outcome


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.name)
def test_the_protocol_keeps_every_promise_in_every_reachable_state(setup: AnySetup, run_file: RunFile) -> None:
    outcome = explored(setup)
    faults(setup, run_file)
    assert not outcome.promise, f"{outcome.promise}\n{told(outcome.trace)}"
    assert outcome.endings > 10


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.flag}-{mutant.setup.name}")
def test_a_missing_protection_breaks_its_promise(mutant: Mutant) -> None:
    outcome = explore(rules(mutant.setup), mutant.setup._replace(mutant=mutant.flag), mutant.promise)
    print(f"{mutant.flag}, {outcome.states} states: {outcome.promise}\n{told(outcome.trace)}")
    assert outcome.promise == mutant.promise


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.setup.name)
def test_a_known_limit_is_really_there(limit: Mutant) -> None:
    outcome = explore(rules(limit.setup), limit.setup, limit.promise)
    print(f"{limit.setup.name}: {outcome.promise}\n{told(outcome.trace)}")
    assert outcome.promise == limit.promise


def test_there_are_enough_mutants_and_none_twice() -> None:
    assert len(set(MUTANTS)) == len(MUTANTS) >= 60


def faults(setup: AnySetup, run_file: RunFile) -> set[str]:
    """What a search took, in this worker of the run or in another one."""
    return set(run_file(f"model-{setup.name}", lambda: "\n".join(explored(setup).taken)).splitlines())


def test_every_kind_of_fault_was_taken(run_file: RunFile) -> None:
    assert not FAULTS - set().union(*(faults(setup, run_file) for setup in SETUPS))
