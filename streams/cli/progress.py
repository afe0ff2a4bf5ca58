"""How far each partition of each agent is: read from the store without a claim, and from Kafka without a group."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from streams.agent import Agent, App
from streams.cli.running import halted
from streams.config import redacted
from streams.config.kafka import EMBEDDED
from streams.contracts import Store
from streams.errors import ChangelogIncomplete, ConfigurationError, SystemNotReady
from streams.values import Level, Partition, PartitionView


@dataclass(frozen=True, slots=True)
class Progress:
    """One partition. None is unknown, or none; `oldest` (age) and `next_deadline` (from now, negative: overdue) are seconds
    by the store's clock; `note` says why the groups could not be read, and why the partition has halted (if it runs here)."""

    agent: str
    topic: str
    partition: int
    owner: str | None = None
    offset: int | None = None
    high: int | None = None
    lag: int | None = None
    open_groups: int | None = None
    oldest: float | None = None
    next_deadline: float | None = None
    unsent: int = 0
    dead: int = 0
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """All partitions of an app; `unreachable` says why Kafka's part is missing, `transactional` names agents with that delivery."""

    app: str
    store: str
    level: Level
    partitions: Sequence[Progress]
    unreachable: str | None = None
    transactional: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        return {
            "app": self.app,
            "store": self.store,
            "level": {"name": self.level.name, "reasons": list(self.level.reasons)},
            "partitions": [asdict(p) for p in self.partitions],
            "unreachable": self.unreachable,
            "transactional": list(self.transactional),
        }


def status(app: App, store: Store, timeout: float) -> Status:
    """`timeout`: seconds for one request to Kafka. Raises SystemNotReady and PersistenceError for the store."""
    known = [p for p in store.partitions(app.name) if any(a.name == p.agent for a in app.agents)]
    high, unreachable = _high(app, known, timeout)
    agents = {agent.name: agent for agent in app.agents}
    everything = set(known) | {Partition(app.name, a.name, t, n) for a in app.agents for t, n in high if t in a.topics}
    found = [_progress(agents[p.agent], p, store.read(p), high.get((p.topic, p.number))) for p in sorted(everything)]
    stopped = halted(app)
    rows = [_noted(row, stopped.get((row.agent, row.topic, row.partition, row.owner or ""))) for row in found]
    transactional = [agent.name for agent in app.agents if agent.delivery == "transactional"]
    return Status(app.name, redacted(app.store), store.level(), rows, unreachable, transactional)


def _noted(row: Progress, note: str | None) -> Progress:
    return replace(row, note="; ".join(filter(None, (note, row.note)))) if note else row


def _high(app: App, known: Sequence[Partition], timeout: float) -> tuple[dict[tuple[str, int], int], str | None]:
    """The next offset of every input partition that Kafka has."""
    if app.kafka["bootstrap.servers"] == EMBEDDED:
        return {}, "the embedded broker answers only its own run"
    from connectors.kafka.admin import existing
    from connectors.kafka.ends import ends

    inputs = sorted({topic for agent in app.agents for topic in agent.topics})
    try:
        counts = existing(app.kafka, inputs, timeout)
        return ends(app.kafka, [(topic, n) for topic in inputs for n in range(counts[topic] or 0)], timeout), None
    except SystemNotReady as error:
        return {}, str(error)


def _progress(agent: Agent, partition: Partition, view: PartitionView | None, high: int | None) -> Progress:
    if view is None:
        return Progress(agent.name, partition.topic, partition.number, high=high, lag=high)
    claim = view.claim
    offset = claim.offset if claim.offset >= 0 else None
    lag = None if high is None else max(0, high - (offset or 0))
    from streams.engine.open_groups import held

    common = (agent.name, partition.topic, partition.number, claim.member or None, offset, high, lag)
    try:
        found = held(agent, partition, view)
    except (ChangelogIncomplete, ConfigurationError) as error:
        return Progress(*common, unsent=view.unsent, dead=view.dead, note=str(error))
    oldest, due = found.groups.oldest(), found.groups.next_due()
    age = None if oldest is None else max(0.0, claim.store_time - oldest)
    counts = len(found.groups.states), age, None if due == float("inf") else due - claim.store_time
    parked = sum(item.state == "parked" for item in found.sealed.held.values())
    note = f"{parked} parked: see `sluicegate parked ls`" if parked else None
    return Progress(*common, *counts, unsent=view.unsent, dead=view.dead, note=note)
