"""Where a partition begins that was never committed, and what becomes of groups that another rule filled."""

from streams.aggregation.groups import Groups
from streams.contracts import Input, Store
from streams.engine.setting import Setting
from streams.errors import ConfigurationError
from streams.leased.contracts import AggregatorBuffer
from streams.leased.shared_records import buffer_name
from streams.values import Claim, Partition, Source, TopicFacts


def start(partition: Partition, wanted: str | float, facts: TopicFacts, store: Store, source: Input) -> int:
    """The offset of a new agent's `start`; a partition that was added later begins at its start."""
    if wanted == "earliest" or _added_later(partition, store):
        return facts.low
    if wanted == "latest":
        return facts.high
    return source.offset_at(partition.topic, partition.number, float(wanted))


def _added_later(mine: Partition, store: Store) -> bool:
    others = [p for p in store.partitions(mine.app) if p.agent == mine.agent and p.topic == mine.topic and p != mine]
    sources = [view.claim.source for view in map(store.read, others) if view is not None]
    return any(source.first_count <= mine.number for source in sources if source is not None)


def carried_over(old: Groups, new: Groups, partition: Partition, setting: Setting, now: float) -> Groups:
    """Groups filled under another key, compute, format or scope can only be ended: fired as they are, or dropped. Raises
    ConfigurationError while the choice is to refuse."""
    choice = setting.on_rule_change
    if old.rule.shared and not new.rule.shared:
        _leave(setting.store.buffer, partition, choice)
    if old.states and choice == "refuse":
        raise ConfigurationError(
            f"agent {partition.agent}: key, compute, format or scope changed while {len(old.states)} groups of "
            f"{partition.topic}/{partition.number} are open; run once with --flush (fire them as they are) or --drop"
        )
    new.touched = dict.fromkeys(old.states)
    for key in list(old.states) if choice == "flush" else ():
        old.fire(key, "manual", now)
    new.events = list(old.drain())
    return new


def _leave(buffer: AggregatorBuffer, partition: Partition, choice: str) -> None:
    """What is in the shared buffer has no owner any more. Raises ConfigurationError unless it may be dropped."""
    name = buffer_name(partition.app, partition.agent)
    if choice == "drop":
        buffer.remove_all(name)
    elif records := buffer.count(name):
        raise ConfigurationError(
            f"agent {partition.agent}: scope was shared, and its buffer still holds {records} records; run it with scope: shared until "
            "`sluicegate groups ls` shows none, or once with --drop"
        )


def noted(claim: Claim, facts: TopicFacts, fingerprint: str) -> Source:
    """What the first commit under this claim writes of its input."""
    known, count = claim.source, facts.partitions
    kept = (known.first_count, known.era) if known else (count, 0)
    return Source(facts.topic_id or (known.topic_id if known else ""), count, fingerprint, *kept, claim.version + 1, claim.token)
