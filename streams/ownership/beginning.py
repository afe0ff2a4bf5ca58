"""The first offset of a new partition, and the open groups that end when a partition is claimed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from sluicegate.streams.aggregation.firing import SLICE_BYTES
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Claim, Partition, Source, TopicFacts
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.ownership.switching import Switch
from sluicegate.streams.reading.proof import UNKNOWN
from sluicegate.streams.shared.shared_records import buffer_name

SLICE = 1_000  # groups that one commit of a take-over ends


def start(partition: Partition, facts: TopicFacts, setting: AgentRuntime) -> int:
    """The first offset of a partition under a new agent's `start`. A partition that was added later, or whose topic
    matched a pattern later, begins at its start."""
    wanted, matching = setting.agent.start, setting.matching
    if wanted == "earliest" or (matching is not None and matching.later(partition.topic)):
        return facts.low
    if _added_later(partition, setting.store):
        return facts.low
    if wanted == "latest":
        return facts.high
    return setting.input.offset_at(partition.topic, partition.number, float(wanted))


def _added_later(mine: Partition, store: Store) -> bool:
    others = [p for p in store.partitions(mine.app) if p.agent == mine.agent and p.topic == mine.topic and p != mine]
    sources = [view.claim.source for view in map(store.read, others) if view is not None]
    return any(source.first_count <= mine.number for source in sources if source is not None)


def check_scope(earlier: Rule, partition: Partition, setting: AgentRuntime, policy: str) -> None:
    """Raises ConfigurationError if the scope changed from shared while the shared buffer holds records, unless the
    policy drops them."""
    if earlier.shared and not setting.rule.shared:
        name = buffer_name(partition.app, partition.agent)
        if policy == "drop":
            setting.store.buffer.remove_all(name)
        elif records := setting.store.buffer.count(name):
            raise ConfigurationError(
                f"agent {partition.agent}: scope was shared, and its buffer still holds {records} records; run it with "
                "scope: shared until `sluicegate groups ls` shows none, or once with --drop"
            )


def endings(groups: Groups, now: float) -> Iterator[None]:
    """End the groups that must end before the next record. Yields after each slice, for its commit."""
    return fired(groups, dict(groups.judge()), now)


def fired(groups: Groups, reasons: Mapping[bytes, str], now: float) -> Iterator[None]:
    """End these groups. Yields after each slice, for its commit."""
    return in_slices(groups, list(reasons), lambda key: groups.fire(key, reasons[key], now))


def in_slices(groups: Groups, keys: Sequence[bytes], act: Callable[[bytes], object]) -> Iterator[None]:
    """Call `act` for each group. `act` removes the group from `groups`. Yields after each slice, for its commit."""
    slice_size, least = 0, groups.bytes - SLICE_BYTES
    for key in keys:
        act(key)
        slice_size += 1
        if slice_size == SLICE or groups.bytes < least:
            slice_size, least = 0, groups.bytes - SLICE_BYTES
            yield
    if slice_size:
        yield


def noted(
    claim: Claim, facts: TopicFacts, setting: AgentRuntime, idle: float | None, switch: Switch, offset: int
) -> Source:
    """The input facts that the first commit under this claim writes to the row. `offset` is the next offset to read."""
    known, count = claim.source, facts.partitions
    same = known is not None and known.version in (0, setting.deployed.number)
    began = known.began if known is not None and same else offset
    counts = (known.first_count, known.era) if known else (count, 0)
    topic_id = facts.topic_id or (known.topic_id if known else "")
    schemas = known.schemas if known else ()
    return Source(
        topic_id,
        count,
        setting.rule.fingerprint,
        *counts,
        claim.version + 1,
        claim.token,
        idle,
        schemas,
        setting.deployed.number,
        switch.generation,
        switch.every,
        began,
        proof_from(known, facts, setting.mac, claim.store_time),
        offset,
    )


def proof_from(known: Source | None, facts: TopicFacts, mac: Mac | None, now: float) -> int:
    """The value of `Source.proof_from` for a claim at `now`. A process of an earlier release may have written the
    records that a partition already holds. A new agent requires proof for all records."""
    if known is not None and (known.proof_from >= 0 or mac is None):
        return known.proof_from
    if mac is None or now < mac.since:
        return UNKNOWN
    return 0 if known is None else facts.high


def idle_since(known: Source | None, rule: Rule, open_groups: int, now: float) -> float | None:
    """The value of `Source.idle` for a claim at `now`.

    Only a rule with a timeout since the last record stores the time of that record. For open groups of another rule,
    the timeout runs from the first claim under such a rule. Later claims keep that time.
    """
    if rule.completion.since_last == inf:
        return None
    if not open_groups:
        return 0.0
    return now if known is None or known.idle is None else min(known.idle, now)
