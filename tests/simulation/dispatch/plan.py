"""What a seed means here: what applications write, and the faults with the steps at which they come."""

from random import Random
from typing import NamedTuple

from tests.simulation.plan import Fault

STEPS, FAULTS, ITEMS = 400, 44, 500
KINDS = ("lanes", "unordered", "timeouts")
KEYS = (b"a", b"b", b"c", b"d", b"e", None)
PLACES = (
    "timeout-claimed",
    "timeout-emitted",
    "lane-claimed",
    "lane-numbered",
    "lane-sent",
    "lane-marked",
    "produced-not-acked",
    "acked-not-recorded",
    "row-offered",
    "report-arrived",
)
OFTEN = {
    "kill": 3,
    "kill-at": 8,
    "stop": 2,
    "pause": 6,
    "pause-at": 8,
    "lost": 8,
    "late": 6,
    "twice": 3,
    "outage": 3,
    "delivery": 7,
    "refused": 2,
    "slow-reports": 6,
    "queue-full": 2,
    "store-clock": 3,
    "clock": 3,
}
"""How often each fault is drawn, relative to the others."""


class Item(NamedTuple):
    """What an application does at `step` with row or timeout `number`: add (a row), again (as after a lost reply),
    insert (a timeout that is due `seconds` later), cancel, move (to `seconds` later)."""

    step: int
    kind: str
    number: int
    key: bytes | None = None
    seconds: float = 0.0


class Plan(NamedTuple):
    """All that a run depends on, besides the code."""

    seed: int
    kind: str
    items: tuple[Item, ...]
    faults: tuple[Fault, ...]
    dispatchers: int
    lanes: int
    steps: int = STEPS


def plan(seed: int, kind: str | None = None) -> Plan:
    """The one that this seed means."""
    chance = Random(f"dispatch {seed}")
    kind = kind or KINDS[seed % len(KINDS)]
    items = _timeouts(chance) if kind == "timeouts" else _rows(chance)
    faults = sorted(_fault(chance) for _ in range(FAULTS))
    return Plan(
        seed,
        kind,
        tuple(sorted(items, key=lambda item: item.step)),
        tuple(faults),
        chance.randint(2, 3),
        chance.randint(1, 3),
    )


def _rows(chance: Random) -> list[Item]:
    items = [Item(chance.randrange(STEPS * 9 // 10), "add", number, chance.choice(KEYS)) for number in range(ITEMS)]
    return items + [
        job._replace(kind="again", step=job.step + chance.randrange(1, 30)) for job in chance.sample(items, 25)
    ]


def _timeouts(chance: Random) -> list[Item]:
    findings = []
    for number in range(ITEMS):
        begin, wait = chance.randrange(STEPS * 8 // 10), chance.uniform(0.1, 6.0)
        findings.append(Item(begin, "insert", number, chance.choice(KEYS), wait))
        if number % 4 == 0:
            later = begin + max(1, int(wait / 0.077) + chance.randrange(-9, 10))
            findings.append(Item(later, chance.choice(["cancel", "move"]), number, None, chance.uniform(0.1, 3.0)))
    return findings


def _fault(chance: Random) -> Fault:
    [name] = chance.choices(list(OFTEN), list(OFTEN.values()))
    place = chance.choice(PLACES) if name.endswith("-at") else ""
    size: float = chance.randrange(3, 40)
    if name == "store-clock":
        size = chance.choice([-20.0, -2.0, 2.0, 20.0])
    elif name == "clock":
        size = chance.choice([0.5, 5.0, 20.0])
    return Fault(chance.randrange(STEPS * 19 // 20), name, chance.randrange(60), place, size)
