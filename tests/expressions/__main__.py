"""`python -m tests.expressions --pairs 1000000 --seed N`: the exact form against cel-cpp. Exits with 1 if not equal."""

import argparse
import itertools
import sys
import time

from tests.expressions.judge import differences

SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    found = list(itertools.islice(differences(given.seed, given.pairs), SHOWN))
    for each in found:
        print(f"{each.pair.text}\n  on {each.pair.document}")
        print(f"  ours {each.ours!r} {each.problem}\n  cel-cpp {each.theirs!r}")
    print(
        f"{given.pairs:,} pairs, seed {given.seed}: {len(found) or 'no'} differences, {time.monotonic() - began:.0f} s"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
