"""`python -m tests.simulation --seed N` prints what a seed does; `--seeds 10000 [--first N]` runs as many and counts
the faults hit. With `--dispatch` seeds are those of the dispatcher."""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from itertools import repeat
from typing import Any

from tests.simulation.dispatch.run import run as dispatch
from tests.simulation.plan import Plan, plan
from tests.simulation.run import Outcome, run, told
from tests.simulation.shrink import shrunk

BLOCK = 50  # seeds of one task


def block(first: int, seeds: int, which: str = "workers") -> tuple[Counter[str], list[tuple[int, str]]]:
    """The faults hit in these seeds, and what was found."""
    hits: Counter[str] = Counter()
    found = []
    for seed in range(first, first + seeds):
        outcome = RUNS[which](seed)
        hits += outcome.hits
        hits["overlaps"] += outcome.overlaps
        if outcome.findings or outcome.weak:
            found.append((seed, outcome.weak or outcome.findings[0]))
    return hits, found


def many(first: int, seeds: int, which: str = "workers") -> int:
    hits: Counter[str] = Counter()
    found: list[tuple[int, str]] = []
    starts = range(first, first + seeds, BLOCK)
    with ProcessPoolExecutor() as pool:
        for some, bad in pool.map(
            block, starts, [min(BLOCK, first + seeds - start) for start in starts], repeat(which)
        ):
            hits += some
            found += bad
            for seed, what in bad:
                print(f"seed {seed}: {what[:300]}", flush=True)
    print(histogram(hits))
    print(f"{seeds} seeds from {first} on: {len(found)} failed")
    return 1 if found else 0


def histogram(hits: Counter[str]) -> str:
    widest = max(hits.values(), default=1)
    return "\n".join(f"{name:22} {times:8} {'#' * (40 * times // widest)}" for name, times in hits.most_common())


def of_dispatcher(seed: int) -> int:
    """What a seed of the dispatcher comes to."""
    outcome = dispatch(seed)
    print(
        "\n".join(
            [*map(str, outcome.plan.faults), histogram(outcome.hits), f"digest {outcome.digest}", *outcome.findings]
        )
    )
    return 1 if outcome.findings else 0


RUNS: dict[str, Any] = {"workers": run, "dispatch": dispatch}


def one(seed: int, shrink: bool) -> int:
    """What this seed does; where it fails, with as little as still fails."""
    outcome = run(seed, keep_trace=True)
    if outcome.findings and shrink:
        print(
            f"seed {seed} fails with {len(outcome.plan.faults)} faults and {len(outcome.plan.records)} records; less "
            "is tried"
        )
        outcome = run(shrunk(outcome.plan, fails), keep_trace=True)
    print(report(outcome))
    return 1 if outcome.findings else 0


def fails(smaller: Plan) -> bool:
    return bool(run(smaller).findings)


def report(outcome: Outcome) -> str:
    lines = [told(outcome), "schedule:", *map(str, outcome.plan.faults), "what happened:", *outcome.trace]
    if len(outcome.plan.records) < 100:
        lines += ["records:", *map(str, outcome.plan.records)]
    return "\n".join([*lines, histogram(outcome.hits), f"digest {outcome.digest}", *outcome.findings])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--digest", action="store_true", help="print the digest of the seed's run, and nothing else")
    parser.add_argument("--dispatch", action="store_true", help="seeds of the dispatcher")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument(
        "--first", type=int, default=date.today().toordinal() * 1000 % 1_000_000, help="others each day"
    )
    asked = parser.parse_args()
    if asked.digest:
        print(run(plan(asked.seed)).digest)
        return 0
    if asked.seed is not None:
        return of_dispatcher(asked.seed) if asked.dispatch else one(asked.seed, not asked.no_shrink)
    return many(asked.first, asked.seeds, "dispatch" if asked.dispatch else "workers")


if __name__ == "__main__":
    sys.exit(main())
