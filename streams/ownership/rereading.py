"""Groups whose records are read again after a deployment with the policy `rewind`.

The partition reads again from the first record of the oldest such group up to the offset at which it changed. In this
range a record counts only if the rule that filled the groups counted it, and it belongs to one of them. All other
records are in a result already, or were refused or left out. Each commit takes the records that it read again out of
the group: so every record is in exactly one of a result, a group that waits to be read again, and a group of the
newest rule.
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
    """The offset of the first record of these groups, which are at least one."""
    return min(int(state[FIRST]) for state in groups.states.values())


def unread(state: GroupState) -> int:
    """How many records of the group were not read again yet. No group of this kind times out, so the column SEEN holds
    the number of those that were, as a negative number."""
    seen = state[SEEN]
    return int(state[COUNT]) + (int(seen) if seen is not None and seen < 0 else 0)


def read_again(groups: Groups, records: Sequence[Record], until: int) -> Sequence[Record]:
    """The records from `until` on, and those below it that belong to `groups`, from which they are taken out. Raises
    RewindMismatch if the records are not those with which a group was filled."""
    if records[0].offset() >= until and not groups.states:
        return records
    rule, kept = _plain(groups.rule), []
    for record in records:
        if record.offset() >= until:
            _check_empty(groups, until)
            kept.append(record)
        elif groups.states and _took(groups, rule, record):
            kept.append(record)
    return kept


def _plain(rule: Rule) -> Rule:
    """The rule, whose results are not made. A record that it refuses became a dead letter or was left out when it was
    read first, so it is passed over."""
    plain = copy(rule)
    plain.results = None
    plain.on_error = OnError(decode="skip", expression="skip")
    return plain


def _took(groups: Groups, rule: Rule, record: Record) -> bool:
    """Whether the record belongs to one of the groups; then it is taken out of it."""
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
    """The key of the group to which a record is added under this rule, None: it is refused or left out. The state of
    other records does not matter."""
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
