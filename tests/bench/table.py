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


def throughput(title: str, records: int, found: Mapping[str, Sequence[Outcome]]) -> str:
    """`found` is system -> outcomes, round by round."""
    head = ("system", "k/s", "k per CPU-s", "wall/loop", "per CPU-s/loop", "peak MiB", "supervisor", "others", "right")
    rows = [head]
    for system, outcomes in found.items():
        wall = [records / 1e3 / each.seconds for each in outcomes]
        cpu = [records / 1e3 / max(each.worker, 0.01) for each in outcomes]
        right = sum(not each.problems for each in outcomes)
        rows.append(
            (
                system,
                spread(wall, "{:.0f}"),
                spread(cpu, "{:.0f}"),
                _ratios(found.get(LOOP, ()), outcomes, lambda each: each.seconds),
                _ratios(found.get(LOOP, ()), outcomes, lambda each: max(each.worker, 0.01)),
                f"{max(each.peak for each in outcomes):.0f}",
                f"{median(each.supervisor for each in outcomes):.2f}",
                f"{median(each.others for each in outcomes):.0%}",
                f"{right}/{len(outcomes)}",
            )
        )
    return f"\n{title}\n{aligned(rows)}\n{NOTES}"


def latency(title: str, found: Mapping[str, Sequence[Latency]]) -> str:
    rows = [("system", "p50 ms", "p99 ms", "worst ms", "others", "right")]
    for system, outcomes in found.items():
        right = sum(not each.problems for each in outcomes)
        others = f"{median(each.others for each in outcomes):.0%}"
        columns = [[each.p50 for each in outcomes], [each.p99 for each in outcomes], [each.worst for each in outcomes]]
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
