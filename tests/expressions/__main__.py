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
    options = parser.parse_args()
    return max(of_pairs(options.seed, options.pairs), of_broken(options.seed, options.broken), of_large_records())


def of_pairs(seed: int, pairs: int) -> int:
    began = time.monotonic()
    examples = list(itertools.islice(differences(seed, pairs), SHOWN))
    for example in examples:
        print(f"{example.pair.text}\n  on {example.pair.document}")
        print(f"  ours {example.ours!r} {example.problem}\n  cel-cpp {example.theirs!r}")
    print(f"{pairs:,} pairs, seed {seed}: {len(examples) or 'no'} differences, {time.monotonic() - began:.0f} s")
    return 1 if examples else 0


def of_broken(seed: int, count: int) -> int:
    began = time.monotonic()
    examples = list(itertools.islice(misread(seed, count), SHOWN))
    print("".join(f"{text!r}: {why}\n" for text, why in examples), end="")
    print(f"{count:,} broken texts, seed {seed}: {len(examples) or 'none'} misread, {time.monotonic() - began:.0f} s")
    return 1 if examples else 0


def of_large_records() -> int:
    slowest = sorted(evaluations(), key=lambda evaluation: -evaluation.seconds)
    most = limit()
    slow = [outcome for outcome in slowest if outcome.seconds > most]
    print(
        "".join(f"{evaluation.record}: {evaluation.text}: {evaluation.seconds * 1000:.0f} ms\n" for evaluation in slow),
        end="",
    )
    print(
        f"{len(slowest)} evaluations of large records: the longest takes {slowest[0].seconds * 1000:.0f} ms of CPU time"
    )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
