"""`python -m tests.model`: every setup and every mutant with its trace, and what was hit how often."""

from collections import Counter

from tests.model.explore import explore, told
from tests.model.setups import LIMITS, MUTANTS, SETUPS


def main() -> None:
    """Print everything that the tests assert."""
    taken: Counter = Counter()
    for setup in SETUPS:
        outcome = explore(setup)
        taken += outcome.taken
        print(f"{setup.name:14} {outcome.states:7} states {outcome.steps:8} steps {outcome.seconds:5.1f} s  {outcome.promise or 'holds'}")
        if outcome.promise:
            print(told(outcome.trace))
    for mutant in (*MUTANTS, *LIMITS):
        outcome = explore(mutant.setup._replace(mutant=mutant.flag), mutant.promise)
        print(f"\n{mutant.flag or 'limit'} ({mutant.setup.name}, {outcome.states} states): {outcome.promise or 'SURVIVED'}")
        print(told(outcome.trace))
    print("\nsteps taken, faults among them:")
    for what, times in taken.most_common():
        print(f"{times:9} {what}")


if __name__ == "__main__":
    main()
