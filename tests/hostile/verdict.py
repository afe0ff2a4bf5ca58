"""What the run says: good records without a result or with a late one, hostile ones without an end, memory, probes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tests.hostile.agents import ATTACKED, HALTS, SESSION

OTHERS = SESSION + 3.0
SAME = 60.0
"""Seconds within which a good record has its result: in a partition without hostile records, and in one with them."""
MEMORY = 1024.0
"""MiB of a process."""
SHOWN = 10


@dataclass
class Verdict:
    """`faults` is empty if all held."""

    faults: list[str] = field(default_factory=list)
    slowest: dict[str, float] = field(default_factory=dict)
    """Seconds of the slowest good record: `others` and `same`."""


def judge(
    good: Mapping[bytes, tuple[str, int, float]],
    results: Mapping[bytes, float],
    hostile: Mapping[bytes, tuple[str, str]],
    ended: Collection[bytes],
    halted: bool,
    memory: Mapping[int, float],
    unanswered: int,
) -> Verdict:
    """`results` has the time of each result by key, `ended` the keys of hostile records with a result or a dead
    letter; `halted`: whether the partition stands whose letters Kafka refuses."""
    verdict = Verdict(slowest={"others": 0.0, "same": 0.0})
    late, lost = [], []
    for key, (agent, partition, sent) in good.items():
        where, most = ("same", SAME) if partition == ATTACKED else ("others", OTHERS)
        if key not in results:
            lost.append(f"{key.decode()} of {agent}/{partition} has no result")
            continue
        seconds = results[key] - sent
        verdict.slowest[where] = max(verdict.slowest[where], seconds)
        if seconds > most:
            late.append(f"{key.decode()} of {agent}/{partition}: its result came after {seconds:.1f} s")
    open_ended = [
        f"{key.decode()} of {agent} ({kind}) has neither a result nor a dead letter, and nothing halted"
        for key, (agent, kind) in hostile.items()
        if key not in ended and not (agent == HALTS and halted)
    ]
    large = [f"process {pid} had {size:.0f} MiB" for pid, size in memory.items() if size > MEMORY]
    probes = [f"{unanswered} probes had no answer"] if unanswered else []
    for kind in (lost, late, open_ended, large, probes):
        verdict.faults += kind[:SHOWN] + ([f"... and {len(kind) - SHOWN} more"] if len(kind) > SHOWN else [])
    return verdict
