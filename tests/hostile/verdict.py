"""What the run says: good records without a result or with a late one, hostile ones without an end, memory, probes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tests.hostile.agents import ATTACKED, FORGED, SESSION, STANDS, UNPACKED
from tests.hostile.counts import Counts
from tests.hostile.senders import Hostile

OTHERS = SESSION + 3.0
SAME = 60.0
"""Seconds within which a good record has its result: in a partition without hostile records; and in one with them, or
beside a batch that ends the process."""
MEMORY = 1024.0
"""MiB of a process."""
SHOWN = 10


@dataclass
class Verdict:
    """`faults` is empty if all held."""

    faults: list[str] = field(default_factory=list)
    slowest: dict[str, float] = field(default_factory=dict)
    """Seconds of the slowest good record: `others`, `same`, and `beside` a batch that ends the process."""


def judge(
    good: Mapping[bytes, tuple[str, int, float]],
    results: Mapping[bytes, float],
    hostile: Mapping[bytes, Hostile],
    ended: Collection[bytes],
    halted: Collection[tuple[str, int]],
    counts: Counts,
    memory: Mapping[str, float],
    unanswered: int,
) -> Verdict:
    """`results` has the time of each result by key, `ended` the keys of hostile records with a result or a dead
    letter, `halted` the agents and partitions that stand."""
    verdict = Verdict(slowest=dict.fromkeys(("others", "same", "beside"), 0.0))
    late, lost = [], []
    for key, (agent, partition, sent) in good.items():
        where, most = ("others", OTHERS)
        if partition == ATTACKED:
            where, most = "same", SAME
        elif agent == UNPACKED:
            where, most = "beside", SAME
        if key not in results:
            lost.append(f"{key.decode()} of {agent}/{partition} has no result")
            continue
        seconds = results[key] - sent
        verdict.slowest[where] = max(verdict.slowest[where], seconds)
        if seconds > most:
            late.append(f"{key.decode()} of {agent}/{partition}: its result came after {seconds:.1f} s")
    open_ended = [
        f"{key.decode()} of {agent}/{partition} ({kind}) has neither a result nor a dead letter, is not counted, and "
        "nothing halted"
        for key, (agent, partition, kind, _) in endless(hostile, ended, halted, counts).items()
    ]
    stopped = [f"{agent}/{partition} halted" for agent, partition in sorted({*halted} - STANDS)]
    large = [f"a process of {name} had {size:.0f} MiB" for name, size in memory.items() if size > MEMORY]
    probes = [f"{unanswered} probes had no answer"] if unanswered else []
    for kind in (lost, late, open_ended, stopped, large, probes):
        verdict.faults += kind[:SHOWN] + ([f"... and {len(kind) - SHOWN} more"] if len(kind) > SHOWN else [])
    return verdict


def endless(
    hostile: Mapping[bytes, Hostile], ended: Collection[bytes], halted: Collection[tuple[str, int]], counts: Counts
) -> dict[bytes, Hostile]:
    """The hostile records that were dropped without a word. Each one of FORGED has headers that are counted, and marks
    among them have no other end."""
    forged = sum(record.agent == FORGED and counts.seen(record.at) for record in hostile.values())
    counted = counts.refused.get(FORGED, 0) >= forged
    return {
        key: record
        for key, record in hostile.items()
        if key not in ended and record[:2] not in halted and not (record.agent == FORGED and counted)
    }
