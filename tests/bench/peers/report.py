"""The tables of `make bench PEERS=1`, in Markdown. Ratios are taken within a round, and then their median."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import psutil

from tests.bench.jobs import Outcome
from tests.bench.peers.contest import OURS
from tests.bench.peers.peers import KAFKA_STREAMS, ONCE, PEERS
from tests.bench.systems import LOOP
from tests.bench.table import spread

HEAD = (
    "system",
    "guarantee",
    "k/s",
    "k per CPU-s",
    "CPU / loop",
    "CPU / Streams",
    "wall / Streams",
    "MiB",
    "server CPU-s",
    "others",
    "right",
)


def throughput(title: str, records: Mapping[str, int], results: Mapping[str, Sequence[Outcome]]) -> str:
    """`records` and `results` are by system; the outcomes are round by round."""
    rows = [HEAD, ("---",) * len(HEAD)]
    for system, outcomes in results.items():
        number, server = records[system] / 1e3, median(outcome.server for outcome in outcomes)
        columns = [[number / seconds for seconds in map(take, outcomes)] for take in (_wall, _cpu)]
        rows.append(
            (
                system,
                OURS[system] if system in OURS else PEERS[system].guarantee,
                *(spread(column, "{:.0f}") for column in columns),
                _ratio(results, records, system, (LOOP,), _cpu),
                _ratio(results, records, system, _exact(results), _cpu),
                _ratio(results, records, system, _exact(results), _wall),
                f"{max(outcome.peak for outcome in outcomes):.0f}",
                f"{server:.1f}" if server else "",
                f"{median(outcome.others for outcome in outcomes):.0%}",
                f"{sum(not outcome.problems for outcome in outcomes)}/{len(outcomes)}",
            )
        )
    lacking = [
        f"{system} cannot express {PEERS[system].lacks}."
        for system in results
        if system in PEERS and PEERS[system].lacks
    ]
    return "\n".join([f"\n### {title}\n", *(f"| {' | '.join(row)} |" for row in rows), "", *lacking])


def _wall(outcome: Outcome) -> float:
    return outcome.seconds


def _cpu(outcome: Outcome) -> float:
    return max(outcome.worker, 0.01)


def _exact(results: Mapping[str, object]) -> Sequence[str]:
    """The runs of Kafka Streams whose results are exactly once."""
    return [system for system in results if system.startswith(KAFKA_STREAMS) and PEERS[system].guarantee == ONCE]


def _ratio(
    outcomes: Mapping[str, Sequence[Outcome]],
    records: Mapping[str, int],
    system: str,
    others: Sequence[str],
    cost: Callable[[Outcome], float],
) -> str:
    """How many times the work of the best of the others, in the same round."""
    others = [other for other in others if outcomes.get(other)]
    if not others:
        return ""
    ratios = [
        records[system] / cost(own) / max(records[other] / cost(outcomes[other][turn]) for other in others)
        for turn, own in enumerate(outcomes[system])
        if all(turn < len(outcomes[other]) for other in others)
    ]
    return spread(ratios, "{:.2f}") if ratios else ""


def machine() -> str:
    """What it ran on."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].partition(": ")[2] if models else platform.machine()
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}"
