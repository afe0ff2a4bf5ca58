"""`python -m tests.simulation --seed N` prints what a seed does; `--seeds 10000 [--first N]` runs as many and counts
the faults hit, and which state of a worker no fault has met. With `--dispatch` seeds are those of the dispatcher, with
`--swarm` their plans leave out some kinds of faults."""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from itertools import repeat
from pathlib import Path
from typing import Any

from tests.simulation.coverage import Met, never, table
from tests.simulation.dispatch.run import run as dispatch
from tests.simulation.plan import Plan, plan, swarm
from tests.simulation.run import Outcome, run, told
from tests.simulation.shrink import shrunk

BLOCK = 50  # seeds of one task


class Total:
    """What many seeds came to."""

    def __init__(self) -> None:
        self.seeds = 0
        self.hits: Counter[str] = Counter()
        self.met: Met = Counter()
        self.failures: list[tuple[int, str]] = []

    def add(self, other: "Total") -> None:
        self.seeds += other.seeds
        self.hits += other.hits
        self.met += other.met
        self.failures += other.failures


def block(first: int, seeds: int, which: str = "workers") -> Total:
    """What these seeds come to."""
    total = Total()
    for seed in range(first, first + seeds):
        outcome = RUNS[which](seed)
        total.seeds += 1
        total.hits += outcome.hits
        total.hits["overlaps"] += outcome.overlaps
        total.met += getattr(outcome, "met", Counter())
        weak = "" if which == "swarm" else outcome.weak  # a swarm may leave out what a seed must have
        if outcome.findings or weak:
            total.failures.append((seed, weak or outcome.findings[0]))
    return total


def many(first: int, seeds: int, which: str = "workers", table_file: Path | None = None) -> int:
    total = Total()
    starts = range(first, first + seeds, BLOCK)
    sizes = [min(BLOCK, first + seeds - start) for start in starts]
    try:
        with ProcessPoolExecutor() as pool:
            for part in pool.map(block, starts, sizes, repeat(which)):
                total.add(part)
                for seed, what in part.failures:
                    print(f"seed {seed}: {what[:300]}", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: go on with --first {first + total.seeds}")
    print(histogram(total.hits))
    if total.met and which != "dispatch":
        print(f"not met: {', '.join(never(total.met)) or 'nothing'}")
    if table_file is not None:
        table_file.write_text(f"{total.seeds:,} seeds from {first}.\n\n{table(total.met)}\n")
    print(f"{total.seeds} seeds from {first} on: {len(total.failures)} failed")
    return 1 if total.failures or total.seeds < seeds else 0


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


RUNS: dict[str, Any] = {"workers": run, "dispatch": dispatch, "swarm": lambda seed: run(swarm(seed))}


def one(chosen: Plan, shrink: bool) -> int:
    """What the plan of a seed does; where it fails, with as little as still fails."""
    seed, outcome = chosen.seed, run(chosen, keep_trace=True)
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
    parser.add_argument("--swarm", action="store_true", help="plans that leave out some kinds of faults")
    parser.add_argument("--table", type=Path, help="write to this file which fault met which state")
    asked = parser.parse_args()
    planned = swarm if asked.swarm else plan
    if asked.digest:
        print(run(planned(asked.seed)).digest)
        return 0
    if asked.seed is not None:
        return of_dispatcher(asked.seed) if asked.dispatch else one(planned(asked.seed), not asked.no_shrink)
    which = "dispatch" if asked.dispatch else "swarm" if asked.swarm else "workers"
    return many(asked.first, asked.seeds, which, asked.table)


if __name__ == "__main__":
    sys.exit(main())
