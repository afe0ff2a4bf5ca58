"""`python -m tests.model`: every setup, every mutant with the promise it breaks and the length of the shortest way
there, and what was hit how often. With `traces`, those ways step by step."""

import sys
from collections import Counter

from tests.model.explore import explore, told
from tests.model.setups import LIMITS, MUTANTS, SETUPS, Mutant, rules


def main() -> None:
    """Print everything that the tests assert."""
    taken: Counter = Counter()
    for setup in SETUPS:
        outcome = explore(rules(setup), setup)
        taken += outcome.taken
        counted = f"{outcome.states:7} states {outcome.steps:8} steps {outcome.seconds:5.1f} s"
        print(f"{setup.name:18} {counted}  {outcome.promise or 'holds'}   ({setup.covers})", flush=True)
        if outcome.promise:
            print(told(outcome.trace))
    print(f"\n{len(MUTANTS)} mutants, each with one protection taken out:")
    for mutant in MUTANTS:
        _show(mutant)
    print("\nlimits: nothing is taken out, and the promise breaks all the same:")
    for limit in LIMITS:
        _show(limit)
    print("\nsteps taken, faults among them:")
    for what, times in taken.most_common():
        print(f"{times:9} {what}")


def _show(mutant: Mutant) -> None:
    outcome = explore(rules(mutant.setup), mutant.setup._replace(mutant=mutant.flag), mutant.promise)
    text = f"{len(outcome.trace):3} steps: {outcome.promise}" if outcome.promise else "SURVIVED"
    print(f"{mutant.flag or mutant.setup.name:46} {mutant.setup.name:18} {outcome.states:6} states {text}", flush=True)
    if "traces" in sys.argv:
        print(told(outcome.trace))


if __name__ == "__main__":
    main()
