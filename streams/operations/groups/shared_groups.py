"""The open groups of `scope: shared`: read from the buffer without a lease, and ended by hand."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.completion import completion
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES, OPENED, SEEN
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.leased import AggregatorBuffer, BufferBatches, BufferSealing
from sluicegate.streams.contracts.leased_values import EarlyState, Entry, SealedBatch
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.build_shared import gate_of
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.operations.groups.open_groups import OpenGroup
from sluicegate.streams.shared.shared_firing import aggregation_of, endless
from sluicegate.streams.shared.shared_records import SharedRecord, buffer_name, group_of, unpacked
from sluicegate.streams.shared.shared_retries import is_retried

_NONE = EarlyState(0, None)


def shared_groups(
    buffer: AggregatorBuffer, app: str, agent: Agent, now: float, key: bytes | None = None
) -> list[OpenGroup]:
    """The groups of this key (None: all), oldest first. Batches that are being fired are included; groups that an
    operator retried are not. `now` is the reader's own time in seconds since 1970, so ages are only as exact as the
    reader's clock. Reads the whole buffer. Raises PersistenceError."""
    rule, of_agent = Rule(endless(agent), formats.reads(agent)), Rule(agent, formats.reads(agent))
    members: dict[str, list[Entry]] = {}
    name = buffer_name(app, agent.name)
    early = buffer.early_states(name) if aggregation_of(agent).emit is not None else {}
    for entry in buffer.get_data(name):
        if not is_retried(entry.group):
            members.setdefault(entry.group, []).append(entry)
    return [
        group
        for key_group, entries in members.items()
        for group in _open_group(rule, of_agent, app, unpacked(entries), now, early.get(key_group, _NONE))
        if key in (None, group.key)
    ]


def _open_group(
    rule: Rule, of_agent: Rule, app: str, records: list[SharedRecord], now: float, early: EarlyState
) -> Iterator[OpenGroup]:
    agent, groups, first, last = of_agent.agent, Groups(rule), records[0], records[-1]
    accept(groups, records, first.taken_at)
    origin = first.origin
    where = Partition(app, agent.name, origin.topic, origin.partition)
    for key, state in groups.states.items():
        state[OPENED], state[SEEN] = first.taken_at, last.taken_at
        due = completion(replace(aggregation_of(agent), deadline=None)).due(state)
        due = min(due, _given_due(of_agent, records))
        yield OpenGroup(
            where,
            "",
            key,
            len(records),
            origin.offset,
            last.origin.offset,
            state[BYTES],
            max(0.0, now - first.taken_at),
            None if due == inf else due - now,
            rule.shown(state, groups.bags.get(key, [])),
            results=early.results,
            next_result=None if early.due_at is None else early.due_at.timestamp() - now,
        )


def _given_due(rule: Rule, records: Sequence[SharedRecord]) -> float:
    """The deadline of the newest record that gives one, in seconds since 1970; infinity for none. Under an earlier rule
    the record may have given another one."""
    deadline, clause = rule.aggregation.deadline, rule.deadline
    if deadline is None or clause is None:
        return inf
    for record in reversed(records):
        try:
            seconds = clause.evaluate(record)
        except Exception:  # the records were read under an earlier rule
            continue
        if seconds is not None:
            begin = {"epoch": 0.0, "first": records[0].taken_at, "last": record.taken_at}[deadline.begin]
            return begin + seconds
    return inf


def sealed(buffer: BufferSealing, app: str, agent: Agent, key: bytes) -> SealedBatch:
    """Seals the group as it is now, with reason `manual`. Raises ConfigurationError when it is not open."""
    batch = buffer.seal(buffer_name(app, agent.name), group_of(key), gate_of(agent))
    if batch is None:
        raise ConfigurationError(
            f"agent {agent.name}: nothing of this group is open any more: it is being fired, or was"
        )
    return batch


def fire(buffer: BufferBatches, app: str, agent: Agent, batch: SealedBatch) -> None:
    """Lets the next worker fire the batch, once. Later records form another group."""
    buffer.release(buffer_name(app, agent.name), batch)


def drop(buffer: BufferBatches, app: str, agent: Agent, batch: SealedBatch) -> None:
    """Deletes the records of the batch, without a result."""
    buffer.complete(buffer_name(app, agent.name), batch)
