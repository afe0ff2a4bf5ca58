"""`python -m tests.expressions --pairs 1000000 --broken 100000 --seed N`: the exact form against cel-cpp on random
pairs and on broken texts, and the CPU time of evaluations on large records. Exits with 1 if anything is wrong."""

import argparse
import itertools
import sys
import time

from tests.expressions.bounds import evaluations, limit
from tests.expressions.broken import misread
from tests.expressions.judge import differences

SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broken", type=int, default=10_000)
    given = parser.parse_args()
    return max(of_pairs(given.seed, given.pairs), of_broken(given.seed, given.broken), of_large_records())


def of_pairs(seed: int, pairs: int) -> int:
    began = time.monotonic()
    found = list(itertools.islice(differences(seed, pairs), SHOWN))
    for each in found:
        print(f"{each.pair.text}\n  on {each.pair.document}")
        print(f"  ours {each.ours!r} {each.problem}\n  cel-cpp {each.theirs!r}")
    print(f"{pairs:,} pairs, seed {seed}: {len(found) or 'no'} differences, {time.monotonic() - began:.0f} s")
    return 1 if found else 0


def of_broken(seed: int, count: int) -> int:
    began = time.monotonic()
    found = list(itertools.islice(misread(seed, count), SHOWN))
    print("".join(f"{text!r}: {why}\n" for text, why in found), end="")
    print(f"{count:,} broken texts, seed {seed}: {len(found) or 'none'} misread, {time.monotonic() - began:.0f} s")
    return 1 if found else 0


def of_large_records() -> int:
    found = sorted(evaluations(), key=lambda each: -each.seconds)
    most = limit()
    slow = [each for each in found if each.seconds > most]
    print("".join(f"{each.record}: {each.text}: {each.seconds * 1000:.0f} ms\n" for each in slow), end="")
    print(f"{len(found)} evaluations of large records: the longest takes {found[0].seconds * 1000:.0f} ms of CPU time")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
