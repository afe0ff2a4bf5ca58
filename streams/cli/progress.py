"""How far each partition of each agent is: read from the store without a claim, and from Kafka without a group."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.letters import Counts
from sluicegate.streams.cli.running import HaltedPartition, halted
from sluicegate.streams.config import redacted
from sluicegate.streams.config.kafka import EMBEDDED
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Level, Partition, PartitionView
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError, SystemNotReady

Letters = Mapping[tuple[str, str, int], int]
"""How many of each (agent, topic, partition)."""


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition. None is unknown, or none; `oldest` (age) and `next_deadline` (from now, negative: overdue) are
    seconds by the store's clock. `dead` counts what `dead ls` lists: dead letters and rows that the broker refused.
    `note` says why the groups could not be read, and why the partition has halted (if it runs here)."""

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
    dead: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """All partitions of an agent, or of all agents (`agent` is None). With `scope: shared` its groups are those of the
    shared buffer."""

    agent: str | None
    lag: int | None
    open_groups: int | None
    oldest: float | None
    next_deadline: float | None
    unsent: int
    dead: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """All partitions of an app, and the totals of its agents; `unreachable` says why Kafka's part is missing,
    `transactional` names agents with that delivery."""

    app: str
    store: str
    level: Level
    partitions: Sequence[PartitionProgress]
    agents: Sequence[Total]
    unreachable: str | None = None
    transactional: Sequence[str] = ()

    def document(self) -> dict[str, Any]:
        return {
            "app": self.app,
            "store": self.store,
            "level": {"name": self.level.name, "reasons": list(self.level.reasons)},
            "partitions": [asdict(p) for p in self.partitions],
            "agents": [asdict(total) for total in self.agents],
            "unreachable": self.unreachable,
            "transactional": list(self.transactional),
        }


def status(app: App, store: Store, timeout: float, counts: Counts) -> Status:
    """`timeout`: seconds for one request to Kafka. Raises SystemNotReady and PersistenceError for the store."""
    agents = {agent.name: agent for agent in app.agents}
    high, letters, unreachable = _kafka(app, timeout, counts)
    everything = {p for p in store.partitions(app.name) if p.agent in agents}
    everything |= {Partition(app.name, a.name, t, n) for a in app.agents for t, n in high if t in a.topics}
    everything |= {Partition(app.name, *place) for place in letters or ()}
    stopped = halted(app)
    found = [
        _progress(agents[p.agent], p, store.read(p), high.get(p[2:]), letters, stopped) for p in sorted(everything)
    ]
    totals = [_total(app, agent, store, [row for row in found if row.agent == agent.name]) for agent in app.agents]
    transactional = [agent.name for agent in app.agents if agent.delivery == "transactional"]
    return Status(app.name, redacted(app.store), store.level(), found, totals, unreachable, transactional)


def _kafka(app: App, timeout: float, counts: Counts) -> tuple[dict[tuple[str, int], int], Letters | None, str | None]:
    """The next offset of every input partition that Kafka has, the dead letters, and why these are not known."""
    if app.kafka["bootstrap.servers"] == EMBEDDED:
        return {}, None, "the embedded broker answers only its own run"
    from sluicegate.connectors.kafka.admin import existing
    from sluicegate.connectors.kafka.ends import ends

    inputs = sorted({topic for agent in app.agents for topic in agent.topics})
    high: dict[tuple[str, int], int] = {}
    try:
        there = existing(app.kafka, inputs, timeout)
        high = ends(app.kafka, [(topic, n) for topic in inputs for n in range(there[topic] or 0)], timeout)
        return high, counts.read(), None
    except SystemNotReady as error:
        return high, None, str(error)


def _progress(
    agent: Agent,
    partition: Partition,
    view: PartitionView | None,
    high: int | None,
    letters: Letters | None,
    stopped: Mapping[HaltedPartition, str],
) -> PartitionProgress:
    place = agent.name, partition.topic, partition.number
    dead = None if letters is None else letters.get(place, 0) + (view.dead if view else 0)
    if view is None:
        return PartitionProgress(*place, high=high, lag=high, dead=dead)
    claim = view.claim
    offset = claim.offset if claim.offset >= 0 else None
    lag = None if high is None else max(0, high - (offset or 0))
    open_groups, oldest, deadline, note = _groups(agent, partition, view)
    notes = "; ".join(filter(None, (stopped.get((*place, claim.member)), note))) or None
    return PartitionProgress(
        *place, claim.owner or None, offset, high, lag, open_groups, oldest, deadline, view.unsent, dead, notes
    )


def _groups(
    agent: Agent, partition: Partition, view: PartitionView
) -> tuple[int | None, float | None, float | None, str | None]:
    """How many groups are open in this partition, the age of the oldest, the next deadline, and a note."""
    from sluicegate.streams.operations.open_groups import held

    try:
        found = held(agent, partition, view)
    except (ChangelogIncomplete, ConfigurationError) as error:
        return None, None, None, str(error)
    now, oldest, due = view.claim.store_time, found.groups.oldest(), found.groups.next_due()
    count = len(found.groups.states) if agent.grouped else None
    parked = sum(item.state == "parked" for item in found.sealed.held.values())
    note = f"{parked} parked: see `sluicegate parked ls`" if parked else None
    age, deadline = None if oldest is None else max(0.0, now - oldest), None if due == float("inf") else due - now
    return (None if agent.scope == "shared" and not count else count), age, deadline, note


def _total(app: App, agent: Agent, store: Store, rows: Sequence[PartitionProgress]) -> Total:
    sums = total(agent.name, rows)
    if agent.scope != "shared":
        return sums
    from sluicegate.streams.operations.shared_groups import shared_groups

    found = shared_groups(store.buffer, app.name, agent, time.time())
    oldest = _best(max, [sums.oldest, *(group.age for group in found)])
    deadline = _best(min, [sums.next_deadline, *(group.fires_in for group in found)])
    return Total(agent.name, sums.lag, (sums.open_groups or 0) + len(found), oldest, deadline, sums.unsent, sums.dead)


def total(name: str | None, rows: "Sequence[PartitionProgress | Total]") -> Total:
    """What is known of them together."""
    return Total(
        name,
        _best(sum, [row.lag for row in rows]),
        _best(sum, [row.open_groups for row in rows]),
        _best(max, [row.oldest for row in rows]),
        _best(min, [row.next_deadline for row in rows]),
        sum(row.unsent for row in rows),
        _best(sum, [row.dead for row in rows]),
    )


def _best(of: Callable[[Iterable[Any]], Any], values: Iterable[Any]) -> Any:
    """Of those that are known; None when none is."""
    known = [value for value in values if value is not None]
    return of(known) if known else None
