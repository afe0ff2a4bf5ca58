"""Tables of medians with their spread. Ratios are taken within a round and then their median: what slows a round slows
both."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from tests.bench.jobs import Outcome
from tests.bench.latency import Latency
from tests.bench.systems import LOOP

NOTES = """\
k/s: thousand records a second; per CPU-s: per second of the worker's CPU (all its threads); over loop: median of the \
rounds'
ratios; supervisor: its CPU seconds in the same time; peak: VmHWM of the worker; others: the share of the machine \
that was
used by processes that are not the bench's (wall times mean little when it is not small). Spread in brackets."""


def throughput(title: str, records: int, results: Mapping[str, Sequence[Outcome]]) -> str:
    """`results` is system -> outcomes, round by round."""
    head = ("system", "k/s", "k per CPU-s", "wall/loop", "per CPU-s/loop", "peak MiB", "supervisor", "others", "right")
    rows = [head]
    for system, outcomes in results.items():
        wall = [records / 1e3 / outcome.seconds for outcome in outcomes]
        cpu = [records / 1e3 / max(outcome.worker, 0.01) for outcome in outcomes]
        right = sum(not outcome.problems for outcome in outcomes)
        rows.append(
            (
                system,
                spread(wall, "{:.0f}"),
                spread(cpu, "{:.0f}"),
                _ratios(results.get(LOOP, ()), outcomes, lambda item: item.seconds),
                _ratios(results.get(LOOP, ()), outcomes, lambda item: max(item.worker, 0.01)),
                f"{max(outcome.peak for outcome in outcomes):.0f}",
                f"{median(outcome.supervisor for outcome in outcomes):.2f}",
                f"{median(outcome.others for outcome in outcomes):.0%}",
                f"{right}/{len(outcomes)}",
            )
        )
    return f"\n{title}\n{aligned(rows)}\n{NOTES}"


def latency(title: str, latencies: Mapping[str, Sequence[Latency]]) -> str:
    rows = [("system", "p50 ms", "p99 ms", "worst ms", "others", "right")]
    for system, outcomes in latencies.items():
        right = sum(not outcome.problems for outcome in outcomes)
        others = f"{median(outcome.others for outcome in outcomes):.0%}"
        columns = [
            [outcome.p50 for outcome in outcomes],
            [outcome.p99 for outcome in outcomes],
            [outcome.worst for outcome in outcomes],
        ]
        rows.append((system, *(spread(column, "{:.1f}") for column in columns), others, f"{right}/{len(outcomes)}"))
    return f"\n{title}\n{aligned(rows)}"


def spread(values: Sequence[float], form: str) -> str:
    """Median [least-most]."""
    return f"{form.format(median(values))} [{form.format(min(values))}-{form.format(max(values))}]"


def _ratios(loop: Sequence[Outcome], outcomes: Sequence[Outcome], cost: Callable[[Outcome], float]) -> str:
    ratios = [cost(one) / cost(other) for one, other in zip(loop, outcomes, strict=False)]
    return spread(ratios, "{:.2f}") if ratios else "-"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
