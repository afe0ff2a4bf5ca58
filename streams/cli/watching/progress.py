"""The progress of each partition: from the store without a claim, and from Kafka without a consumer group."""

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import msgspec

from sluicegate.connectors.kafka.admin import existing
from sluicegate.connectors.kafka.ends import readable_ends
from sluicegate.connectors.kafka.unread import read_to_the_end
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli.letters import Counts
from sluicegate.streams.cli.opening.matching import with_matches
from sluicegate.streams.cli.watching.running import RunPartition, partitions
from sluicegate.streams.config import redacted
from sluicegate.streams.contracts.stores import Store, TopicPartition
from sluicegate.streams.contracts.values import Level, Partition, PartitionView
from sluicegate.streams.errors import ChangelogIncomplete, ConfigurationError, SystemNotReady
from sluicegate.streams.operations.dead.dead_changes import settled
from sluicegate.streams.operations.groups.contents import contents_of
from sluicegate.streams.operations.groups.shared_groups import shared_groups
from sluicegate.streams.operations.left_behind import LeftBehind, left_behind
from sluicegate.streams.topic_names import patterns, reads

UNOWNED = (
    "it has no owner: workers learn of added partitions within 10 s, a handover is under way, or its owner claims it "
    "again after a failed call"
)
GONE = "the topic is gone: what is open here stays in the store until `sluicegate groups drop`"

DeadLetterCounts = Mapping[tuple[str, str, int], int]
"""By agent, topic and partition."""


class PartitionProgress(msgspec.Struct, frozen=True):
    """The progress of one partition. None means unknown, or nothing. `oldest` is the age of the oldest group,
    `next_deadline` the seconds until the next deadline (negative: overdue), both by the store's clock. `dead` counts
    dead letters and rows that the broker refused. `note` is the reason why groups could not be read, or why the
    partition does not go on."""

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


class Total(msgspec.Struct, frozen=True):
    """The sum over the partitions of an agent, or of all agents (`agent` is None). With `scope: shared` it includes the
    groups of the shared buffer."""

    agent: str | None
    lag: int | None
    open_groups: int | None
    oldest: float | None
    next_deadline: float | None
    unsent: int
    dead: int | None


class LeftPartition(msgspec.Struct, frozen=True):
    """A partition with groups, items or unsent rows that no agent of the file reads. `open_groups` None: they cannot
    be read."""

    agent: str
    topic: str
    partition: int
    owner: str | None
    open_groups: int | None
    items: int
    unsent: int
    note: str


class Status(msgspec.Struct, frozen=True):
    """All partitions of an app, and the totals of its agents. `unreachable` is the reason why Kafka was not asked.
    `transactional` names the agents with that delivery. `left_behind` is the state of agents that the file lacks."""

    app: str
    store: str
    level: Level
    partitions: Sequence[PartitionProgress]
    agents: Sequence[Total]
    unreachable: str | None = None
    transactional: Sequence[str] = ()
    left_behind: Sequence[LeftPartition] = ()

    def document(self) -> dict[str, Any]:
        level = {"name": self.level.name, "reasons": list(self.level.reasons)}
        return {**msgspec.to_builtins(self), "level": level}


def status(app: App, store: Store, timeout: float, counts: Counts, only: str | None = None) -> Status:
    """`timeout`: seconds for one request to Kafka. `only`: this agent alone. Raises SystemNotReady and
    PersistenceError for the store."""
    orphans = [_left_partitions(app, part) for part in left_behind(store, app) if only in (None, part.partition.agent)]
    app = app if only is None else replace(app, agents=tuple(agent for agent in app.agents if agent.name == only))
    agents = {agent.name: agent for agent in app.agents}
    high, letters, unreachable = _kafka(app, timeout, counts, settled(store, app.name))
    everything = {p for p in store.partitions(app.name) if p.agent in agents}
    everything |= {Partition(app.name, a.name, t, n) for a in app.agents for t, n in high if reads(a.topics, t)}
    everything |= {Partition(app.name, *place) for place in letters or ()}
    live = partitions(app)
    rows = [
        _progress(agents[p.agent], p, store.read(p), high.get(p[2:]), letters, live.get(p[1:]))
        for p in sorted(everything)
    ]
    if unreachable is None:
        rows = _with_gone(agents, rows, {topic for topic, _ in high})
    rows = _with_unowned(_without_transactions(app, rows, timeout))
    totals = [_total(app, agent, store, [row for row in rows if row.agent == agent.name]) for agent in app.agents]
    transactional = [agent.name for agent in app.agents if agent.delivery == "transactional"]
    return Status(app.name, redacted(app.store), store.level(), rows, totals, unreachable, transactional, orphans)


def _left_partitions(app: App, orphans: LeftBehind) -> LeftPartition:
    partition, holding = orphans.partition, orphans.holding
    there = partition.agent in [agent.name for agent in app.agents]
    what = f"agent {partition.agent} {'no longer reads this topic' if there else 'is not in this file'}"
    note = f"{orphans.contents}; {what}, {f'owner {orphans.owner}' if orphans.owner else 'it has no owner'}"
    place = partition.agent, partition.topic, partition.number, orphans.owner or None
    if holding is None:
        return LeftPartition(*place, None, 0, 0, note)
    return LeftPartition(*place, holding.groups, holding.items, holding.rows, note)


def _kafka(
    app: App, timeout: float, counts: Counts, mended: Container[str]
) -> tuple[dict[tuple[str, int], int], DeadLetterCounts | None, str | None]:
    """The end of every input partition for a reader of committed records, the counts of dead letters, and the reason
    why Kafka could not be asked."""
    if app.embedded:
        return {}, None, "the embedded broker answers only its own run"
    high: dict[tuple[str, int], int] = {}
    try:
        inputs = sorted({topic for agent in with_matches(app).agents for topic in agent.topics})
        there = existing(app.brokers, inputs, timeout)
        high = readable_ends(app.brokers, [(topic, n) for topic in inputs for n in range(there[topic] or 0)], timeout)
        return high, counts.read(mended), None
    except SystemNotReady as error:
        return high, None, str(error)


def _progress(
    agent: Agent,
    partition: Partition,
    view: PartitionView | None,
    high: int | None,
    letters: DeadLetterCounts | None,
    live: RunPartition | None,
) -> PartitionProgress:
    place = agent.name, partition.topic, partition.number
    dead = None if letters is None else letters.get(place, 0) + (view.dead if view else 0)
    if view is None:
        return PartitionProgress(*place, high=high, lag=high, dead=dead, note=live.note(None) if live else None)
    claim = view.claim
    offset = claim.offset if claim.offset >= 0 else None
    lag = None if high is None else max(0, high - (offset or 0))
    open_groups, oldest, deadline, note = _groups(agent, partition, view)
    notes = "; ".join(filter(None, (live.note(claim.member) if live else None, note))) or None
    return PartitionProgress(
        *place, claim.owner or None, offset, high, lag, open_groups, oldest, deadline, view.unsent, dead, notes
    )


def _without_transactions(app: App, rows: Sequence[PartitionProgress], timeout: float) -> list[PartitionProgress]:
    """The lags. If the offsets behind the committed one belong to transactions and to no record, the partition has no
    lag."""
    asked: dict[str, dict[TopicPartition, int]] = {}
    for row in rows:
        if row.lag:
            asked.setdefault(row.agent, {})[row.topic, row.partition] = row.offset or 0
    ended = {(agent, *place) for agent, of in asked.items() for place in read_to_the_end(app.brokers, of, timeout)}
    return [
        msgspec.structs.replace(row, lag=0) if (row.agent, row.topic, row.partition) in ended else row for row in rows
    ]


def _with_gone(
    agents: Mapping[str, Agent], rows: Sequence[PartitionProgress], topics: Container[str]
) -> list[PartitionProgress]:
    """Adds a note to each partition whose topic matched a pattern and is not among `topics` any more."""
    return [
        row
        if row.topic in topics or not patterns(agents[row.agent].topics)
        else msgspec.structs.replace(row, note="; ".join(filter(None, (GONE, row.note))))
        for row in rows
    ]


def _with_unowned(rows: Sequence[PartitionProgress]) -> list[PartitionProgress]:
    """Adds a note to each partition without an owner although workers of its agent run."""
    running = {row.agent for row in rows if row.owner}
    return [
        msgspec.structs.replace(row, note=UNOWNED) if row.agent in running and not row.owner and not row.note else row
        for row in rows
    ]


def _groups(
    agent: Agent, partition: Partition, view: PartitionView
) -> tuple[int | None, float | None, float | None, str | None]:
    """The number of open groups in this partition, the age of the oldest, the next deadline, and a note."""
    try:
        contents = contents_of(agent, partition, view)
    except (ChangelogIncomplete, ConfigurationError) as error:
        return None, None, None, str(error)
    groups = [generation.groups for generation in contents.every]
    now = view.claim.store_time
    oldest = min((at for group in groups if (at := group.oldest()) is not None), default=None)
    due = min(group.next_due() for group in groups) if agent.grouped else inf
    age = None if oldest is None else max(0.0, now - oldest)
    deadline = None if due == inf else 0.0 if due == -inf else due - now
    parked = sum(item.state == "parked" for item in contents.sealed.by_number.values())
    note = f"{parked} parked: see `sluicegate parked ls`" if parked else None
    count = contents.open_groups if agent.grouped else None
    return (None if agent.scope == "shared" and not count else count), age, deadline, note


def _total(app: App, agent: Agent, store: Store, rows: Sequence[PartitionProgress]) -> Total:
    sums = total(agent.name, rows)
    if agent.scope != "shared":
        return sums
    totals = shared_groups(store.buffer, app.name, agent, time.time())
    return msgspec.structs.replace(
        sums,
        open_groups=(sums.open_groups or 0) + len(totals),
        oldest=_over_known(max, [sums.oldest, *(group.age for group in totals)]),
        next_deadline=_over_known(min, [sums.next_deadline, *(group.fires_in for group in totals)]),
    )


def total(name: str | None, rows: "Sequence[PartitionProgress | Total]") -> Total:
    """The total of these rows, from the values that are known."""
    return Total(
        name,
        _over_known(sum, [row.lag for row in rows]),
        _over_known(sum, [row.open_groups for row in rows]),
        _over_known(max, [row.oldest for row in rows]),
        _over_known(min, [row.next_deadline for row in rows]),
        sum(row.unsent for row in rows),
        _over_known(sum, [row.dead for row in rows]),
    )


def _over_known(function: Callable[[Iterable[Any]], Any], values: Iterable[Any]) -> Any:
    """The value over the known ones; None: none is known."""
    known = [value for value in values if value is not None]
    return function(known) if known else None
