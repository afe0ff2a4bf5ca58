"""What a seed means: an app, its input, and the faults with the steps at which they come. All of it is drawn before
anything runs."""

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.testing.deaths import AROUND, ENGINE, HANDLERS
from tests.simulation import deployed, silence
from tests.simulation.apps import KINDS, MORE_KINDS, Entry, agents, records
from tests.simulation.changed import files
from tests.simulation.shared import SHARED

STEPS = 400
FAULTS = 44
PLACES = (*ENGINE, *AROUND)
ANSWERS = ("claim-asked", "claim-answered", "commit-asked", "commit-answered")
MIDDLES = (
    "commit-asked",
    "commit-asked",
    "before-commit",
    "after-claim",
    "after-poll",
    "commit-answered",
    "row-offered",
    "in-restore",
)
OFTEN = {
    "kill": 3,
    "kill-at": 8,
    "raise-at": 2,
    "stop": 2,
    "pause": 4,
    "pause-at": 8,
    "lost-at": 5,
    "late": 4,
    "twice": 2,
    "outage": 3,
    "rebalance": 5,
    "redeliver": 4,
    "ahead": 2,
    "kafka-away": 2,
    "delivery": 5,
    "slow-reports": 6,
    "queue-full": 2,
    "store-clock": 3,
    "clock": 3,
}
"""How often each fault is drawn, relative to the others."""
OF_SWARM = {"stale": 4}
"""Faults of swarms alone, so that the numbers of other seeds go on to mean what they meant."""


class Fault(NamedTuple):
    """From `step` on; those `-at` a place when it is next reached. `size` is in steps, rows, records or seconds, as the
    kind has it; `target` chooses among processes or partitions."""

    step: int
    kind: str
    target: int = 0
    place: str = ""
    size: float = 0.0

    def __str__(self) -> str:
        place = f" {self.place}" if self.place else ""
        return f"{self.step:4} {self.kind}{place} (target {self.target}, size {self.size:g})"


class Plan(NamedTuple):
    """All that a run depends on, besides the code."""

    seed: int
    kind: str
    agents: tuple[Agent, ...]
    records: tuple[Entry, ...]
    faults: tuple[Fault, ...]
    workers: int
    partitions: int
    cooperative: bool
    steps: int = STEPS
    files: tuple[Agent, ...] = ()  # what the file of a process may say of the one agent, where they differ


def plan(seed: int, kind: str | None = None) -> Plan:
    """The one that this seed means."""
    chance = Random(seed)
    kind = kind or KINDS[seed % len(KINDS)]
    partitions, workers = chance.randint(2, 3), chance.randint(2, 3)
    made = agents(kind, chance)
    entries = records(kind, chance, chance.randint(500, 540), STEPS * 9 // 10, partitions)
    faults = [_fault(chance, kind, OFTEN) for _ in range(FAULTS)]
    if seed // len(KINDS) % 2:
        faults = [fault for fault in faults if fault.kind != "store-clock"]
    faults += [
        Fault(chance.randrange(20, 300), "pause-at", 0, "commit-asked", chance.randrange(12, 40)) for _ in range(3)
    ]
    rewinds = seed // len(KINDS) % 8 == 7
    faults, others = _of_kind(kind, chance, made, faults, rewinds, workers)
    cooperative = kind == "slow" or chance.random() < 0.5
    return Plan(seed, kind, made, entries, tuple(sorted(faults)), workers, partitions, cooperative, files=others)


def swarm(seed: int) -> Plan:
    """A plan with some kinds of faults left out, so that those that stay come more often and in longer rows: what one
    kind of fault hides from another is met then (Groce et al., Swarm Testing, ISSTA 2012)."""
    chance = Random(f"swarm {seed}")
    kind = chance.choice((*KINDS, *MORE_KINDS))
    partitions, workers = chance.randint(1, 4), chance.randint(2, 4)
    made = agents(kind, chance)
    entries = records(kind, chance, chance.randint(300, 600), STEPS * 9 // 10, partitions)
    chosen = {name: often for name, often in (OFTEN | OF_SWARM).items() if chance.random() < 0.5} or OFTEN
    faults = [_fault(chance, kind, chosen) for _ in range(chance.choice((10, 30, 60, 120)))]
    faults, others = _of_kind(kind, chance, made, faults, chance.random() < 0.1, workers)
    cooperative = kind == "slow" or chance.random() < 0.5
    return Plan(seed, kind, made, entries, tuple(sorted(faults)), workers, partitions, cooperative, files=others)


def _of_kind(
    kind: str, chance: Random, made: tuple[Agent, ...], faults: list[Fault], rewinds: bool, workers: int
) -> tuple[list[Fault], tuple[Agent, ...]]:
    """The faults that this kind of agents has, and the files that its processes may have."""
    if rewinds and kind not in ("slow", "poison", "session"):
        faults.append(Fault(STEPS - chance.randrange(5, 40), "rewind", 0, "", chance.randrange(1, 60)))
    if kind == silence.KIND:
        faults = _of_connections(chance, faults)
    if kind == "refused":
        faults += [Fault(chance.randrange(STEPS * 19 // 20), "refused", chance.randrange(60)) for _ in range(12)]
    if kind == "gaps":
        faults += [Fault(chance.randrange(STEPS * 19 // 20), "gap", chance.randrange(60)) for _ in range(12)]
    others: tuple[Agent, ...] = ()
    if kind == "changed":
        others = files(made[0], chance)
        faults = [fault for fault in faults if fault.kind != "rewind"]
        steps = [chance.randrange(STEPS * 19 // 20) for _ in range(16)]
        faults += [Fault(step, "file", chance.randrange(60), "", chance.randrange(60)) for step in steps]
    if kind in deployed.RULES:
        others = deployed.RULES[kind](made[0], chance)
        faults = [fault for fault in faults if fault.kind != "rewind"]
        faults += _deployments(chance, workers)
    if made[0].scope == "shared":
        faults = [fault for fault in faults if fault.kind != "rewind"]
        faults += [_of_buffer(chance) for _ in range(20)]
    return faults, others


def _deployments(chance: Random, workers: int) -> list[Fault]:
    """Each worker notices a deployment within 30 steps, unless it is dead then."""
    items = []
    for at in sorted(chance.randrange(STEPS * 18 // 20) for _ in range(7)):
        items.append(Fault(at, "deploy", 0, "", chance.randrange(60)))
        items += [Fault(at + chance.randrange(1, 30), "notice", number) for number in range(2 * workers)]
    return items


def _of_connections(chance: Random, faults: list[Fault]) -> list[Fault]:
    """Connections that go silent, and half of the others. A clock that is ahead ends silence early, as the page
    says."""
    others = [fault for fault in faults if fault.kind not in ("store-clock", "rewind", "outage")][::2]
    away = [(chance.randrange(STEPS), 2 * chance.randrange(30), chance.randrange(20, 40)) for _ in range(40)]
    return [*others, *(Fault(step, "kafka-away", target, "", size) for step, target, size in away)]


def _of_buffer(chance: Random) -> Fault:
    name = chance.choice(["shared-lost", "shared-late", "kill-at", "pause-at"])
    place = chance.choice(SHARED) if name.endswith("-at") else ""
    return Fault(chance.randrange(STEPS * 19 // 20), name, chance.randrange(60), place, chance.randrange(3, 40))


def _fault(chance: Random, kind: str, often: Mapping[str, int]) -> Fault:
    [name] = chance.choices(list(often), list(often.values()))
    place = ""
    if name == "lost-at":
        place = chance.choice(ANSWERS)
    elif name == "pause-at":
        place = chance.choice(MIDDLES)
    elif name in ("kill-at", "raise-at"):
        place = chance.choice((*PLACES, *(HANDLERS if kind == "slow" and name == "kill-at" else ())))
    size: float = chance.randrange(3, 40)
    if name == "store-clock":
        size = chance.choice([-3600.0, -20.0, -2.0, 2.0, 20.0, 3600.0])
    elif name == "clock":
        size = chance.choice([0.5, 5.0, 60.0])
    elif name in ("late", "twice"):
        size = chance.choice([1, 1, 2, 3, 5, 10, 30])
    return Fault(chance.randrange(STEPS * 19 // 20), name, chance.randrange(60), place, size)
