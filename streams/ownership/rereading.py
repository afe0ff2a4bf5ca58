"""Reads the records of open groups again after a deployment with the policy `rewind`.

The partition is read again from the first record of the oldest such group up to the offset at which the rule changed.
In this range a record counts only if it belongs to one of the groups and their rule counted it. All other records are
already in a result, or were refused or left out. Each commit removes the records that it read again from their group.
So every record is in exactly one of these: a result, a group that waits to be read again, or a group of the newest
rule.
"""

from collections.abc import Sequence
from copy import copy

from sluicegate.streams.agent import OnError
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT, FIRST, LAST, SEEN, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import taken
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import RewindMismatch


def lowest(groups: Groups) -> int:
    """The offset of the first record of these groups. There must be at least one group."""
    return min(int(state[FIRST]) for state in groups.states.values())


def unread(state: GroupState) -> int:
    """The number of records of the group that were not read again yet. These groups never time out, so the column SEEN
    stores the number of records that were, as a negative number."""
    seen = state[SEEN]
    return int(state[COUNT]) + (int(seen) if seen is not None and seen < 0 else 0)


def read_again(groups: Groups, records: Sequence[Record], until: int) -> Sequence[Record]:
    """Return the records from `until` on, and the records below it that belong to `groups`. Remove the latter from
    their groups. Raises RewindMismatch if they differ from the records that filled a group."""
    if records[0].offset() >= until and not groups.states:
        return records
    rule, kept = copy(groups.rule), []
    rule.results = None
    # what it refuses became a dead letter or was left out when it was first read
    rule.on_error = OnError(decode="skip", expression="skip")
    for record in records:
        if record.offset() >= until:
            _check_empty(groups, until)
            kept.append(record)
        elif groups.states and _took(groups, rule, record):
            kept.append(record)
    return kept


def _took(groups: Groups, rule: Rule, record: Record) -> bool:
    """Remove the record from its group. Returns False if it belongs to none of the groups."""
    offset, key = record.offset(), counted_key(rule, record)
    state = groups.states.get(key) if key is not None else None
    if key is None or state is None or offset < state[FIRST]:
        return False
    unread_ = unread(state)
    first, last = unread_ == state[COUNT], unread_ == 1
    if first != (offset == state[FIRST]) or last != (offset == state[LAST]):
        raise RewindMismatch(
            f"record {offset} does not continue the group of key {key.decode(errors='replace')!r} that is read again: "
            f"{_remedy(state)}"
        )
    if last:
        groups.drop(key)
    else:
        state[SEEN] = unread_ - 1 - state[COUNT]
        groups.touched[key] = state
    return True


def counted_key(rule: Rule, record: Record) -> bytes | None:
    """The key of the group to which this rule adds the record. None: the rule refuses it or leaves it out. The result
    does not depend on other records."""
    probe = Groups(rule)
    accept(probe, taken(probe, (record,)), 0.0)
    for event in probe.events:
        if isinstance(event, Fire):
            return event.key
    return next(iter(probe.states), None)


def _check_empty(groups: Groups, until: int) -> None:
    for key, state in groups.states.items():
        raise RewindMismatch(
            f"all records below {until} were read again, and {unread(state)} of the group of key "
            f"{key.decode(errors='replace')!r} were not among them: {_remedy(state)}"
        )


def _remedy(state: GroupState) -> str:
    return (
        f"it holds {state[COUNT]} records from {state[FIRST]} to {state[LAST]}; the topic has lost records, or the "
        "functions of the rule changed; `sluicegate groups drop` gives up what was not read again, then restart the "
        "worker"
    )
