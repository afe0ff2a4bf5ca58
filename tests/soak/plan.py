"""What happens when: a list of faults that follows from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

WORKERS = 3
SESSION = 5.0  # seconds until a silent member is out: on a busy machine a shorter one loses members that nobody hit
AGENTS = ("sums", "book")
SERVERS = ("redis", "postgresql", "mariadb", "mongodb")
"""Stores that can be killed and cut off; SQLite's disk can be full."""


class Step(NamedTuple):
    at: float
    """Seconds after the begin."""
    kind: str
    target: str
    detail: str
    seconds: float
    """How long it lasts; 0: it is done at once."""

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.at:7.1f} {self.kind} {self.target} {self.detail}".rstrip() + lasting


@dataclass(frozen=True)
class Kind:
    """`weight` is how often it comes compared with the others; `targets` meet one fault at a time; `process`: a process
    is hit."""

    weight: int
    targets: Sequence[str]
    details: Sequence[str] = ("",)
    lasts: tuple[float, float] = (0.0, 0.0)
    rest: float = 2.0  # seconds until the next fault of the same target
    process: bool = False
    # recovery is counted from the end of the fault: what was down must be back before anything can go on
    from_end: bool = False


DISK = {
    "slow-disk": Kind(4, ["disk"], ("0.02", "0.1", "0.3"), (1.0, 4.0), rest=2.0, from_end=True),
    "power-loss": Kind(3, ["disk"], rest=6.0, process=True, from_end=True),
    "failing-disk": Kind(3, ["disk"], lasts=(0.1, 1.5), rest=3.0, from_end=True),
}
"""The faults of a disk of ours below SQLite's file."""


def kinds(store: str, brokers: int, agents: Sequence[str] = AGENTS, disk: bool = False) -> dict[str, Kind]:
    """The faults that this store, so many brokers and workers of these agents can meet, and a `disk` of ours."""
    workers = [f"worker-{number}" for number in range(WORKERS)]
    links = [f"broker-link-{number}" for number in range(WORKERS)]
    if store in SERVERS:
        links += [f"store-link-{number}" for number in range(WORKERS)]
    all_brokers = ["brokers"]  # one at a time
    results = {
        "kill-child": Kind(20, workers, agents, process=True),
        "kill-worker": Kind(6, workers, process=True),
        "pause": Kind(6, workers, agents, (SESSION + 0.5, SESSION + 2.5), process=True),
        "terminate": Kind(5, workers, process=True, rest=3.0),
        "join-and-leave": Kind(3, ["guest"], agents, (1.0, 3.0), process=True),
        "kill-broker": Kind(3, all_brokers, lasts=(0.0, 1.5), rest=12.0, process=True, from_end=True),
        "reset": Kind(8, links, from_end=True),
        "half-open": Kind(4, links, lasts=(1.0, 4.0), from_end=True),
        "one-way": Kind(5, links, ("to-server", "to-client"), (1.0, 4.0), from_end=True),
        "two-way": Kind(3, links, lasts=(1.0, 4.0), from_end=True),
        "unanswered": Kind(3, links, lasts=(1.0, 4.0), from_end=True),
        "latency": Kind(4, links, ("0.05", "0.2", "0.5"), (1.0, 4.0), from_end=True),
        "bandwidth": Kind(3, links, ("10000", "50000"), (1.0, 4.0), from_end=True),
        # Only where a checksum covers the bytes: without TLS nothing covers those between a worker and its store.
        "corruption": Kind(3, [link for link in links if link.startswith("broker")], lasts=(1.0, 3.0), from_end=True),
    }
    if store in SERVERS:
        results["late-write"] = Kind(4, workers, agents, (SESSION + 2.5, SESSION + 4.0), process=True)
        results["kill-store"] = Kind(5, ["store"], lasts=(0.0, 1.0), rest=4.0, process=True, from_end=True)
        # With SQLite the worker's clock is the store's.
        results["clock"] = Kind(
            3, [f"clock-{number}" for number in range(WORKERS)], ("-86400", "-3600", "3600", "86400"), (2.0, 6.0)
        )
    else:
        results["disk-full"] = Kind(4, ["disk"], lasts=(0.5, 2.0), rest=4.0, from_end=True)
    if disk:
        results |= DISK
    if brokers > 1:
        results["roll-brokers"] = Kind(1, all_brokers, rest=60.0, process=True, from_end=True)
        results["move-leaders"] = Kind(3, ["leaders"], rest=5.0)
    return results


def plan(seed: int, seconds: float, pace: float, known: dict[str, Kind]) -> list[Step]:
    """Faults about every `pace` seconds; of each kind at least one while there is time."""
    random = Random(seed)
    first = sorted(known)
    random.shuffle(first)
    steps: list[Step] = []
    free: dict[str, float] = {}
    at = 0.0
    while at < seconds:
        names = [name for name in known if any(free.get(target, 0.0) <= at for target in known[name].targets)]
        if names:
            name = (
                next((name for name in first if name in names), "")
                or random.choices(names, [known[name].weight for name in names])[0]
            )
            first = [item for item in first if item != name]
            kind = known[name]
            target = random.choice([target for target in kind.targets if free.get(target, 0.0) <= at])
            steps.append(Step(at, name, target, random.choice(kind.details), random.uniform(*kind.lasts)))
            free[target] = at + steps[-1].seconds + kind.rest
        at += pace * random.uniform(0.5, 1.5)
    return steps
