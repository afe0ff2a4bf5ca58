"""Adds one record at a time to its group, with every check. This code defines the meaning of a rule.

The compiled loop of a rule (compiled/loop.py) adds most records. It hands the others to this code.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas import change_events
from sluicegate.schemas.codecs import Unavailable
from sluicegate.schemas.json import NOT_UTF8
from sluicegate.streams.aggregation.clauses import ClauseFailed
from sluicegate.streams.aggregation.compiled.loop import loop_of
from sluicegate.streams.aggregation.ending import with_items
from sluicegate.streams.aggregation.events import EMPTY
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import COUNT, FIRST, LAST, ROWS, SEEN, Bags, GroupState
from sluicegate.streams.aggregation.record_view import RecordView
from sluicegate.streams.causes import Cause, cause, masked, message
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import DecodeStopped, DecodeWaits, ExpressionStopped, Halt


def accept(groups: Groups, records: Sequence[Record], now: float) -> None:
    """Add the records, which are of one partition and in order, at the owner's time `now`. Pure: no I/O, no clock.

    Afterwards `groups.events` holds the fires and the refused records. Raises Halt if a limit's action is `stop`.
    """
    if groups.rule.aggregation.table:
        for record in records:
            changed(groups, record, now)
        return
    loop = None if groups.behind or groups.full else loop_of(groups.rule, False, carefully)
    if loop is not None:
        loop.call(groups, records, now, None)
        return
    for record in records:
        carefully(groups, record, now)


def carefully(groups: Groups, record: Record, now: float) -> None:
    """Add one record, under any rule."""
    try:
        key, read, items = parsed(groups, record)
        deadline = groups.rule.deadline.evaluate(record) if groups.rule.deadline is not None else None
    except Exception as e:
        refuse(groups, record, e)
        return
    state = groups.states.get(key) if key is not None else None
    if key is not None and state is not None and groups.behind and groups.due(state) <= now:
        groups.fire(key, "timeout", now)
    put(groups, key, record, read, items, now, deadline)


def put(
    groups: Groups,
    key: bytes | None,
    record: Record,
    read: Any,
    items: list[Any],
    now: float,
    deadline: float | None = None,
) -> bool:
    """Add a decoded record to the group of this name. The group is opened, or makes room, if necessary. Returns False
    if the record was refused."""
    state = admitted(groups, key, record, items, now)
    return key is not None and state is not None and add_to(groups, key, state, record, read, items, now, deadline)


def admitted(groups: Groups, key: bytes | None, record: Record, items: list[Any], now: float) -> GroupState | None:
    """The group of this name, with room for the record. None: the record was refused."""
    if key in groups.full and not groups.deny(record, f"max_items {groups.rule.aggregation.max_items}"):
        return None
    if key is not None and not groups.admits(key, groups.states.get(key), record, items, now):
        return None
    state = groups.states.get(key) if key is not None else None
    return groups.open(key, record, now) if state is None else state


def parsed(groups: Groups, record: Record) -> tuple[bytes | None, Any, list[Any]]:
    """Return the key of the record, its decoded fields, and the item for each bag. `refuse` explains every error that
    it raises."""
    rule, value = groups.rule, record.value()
    read = rule.reader.read(record)
    key = record.key() if rule.key_of is None else rule.key_of(read)
    if len(value) > rule.max_record_bytes:  # type: ignore[arg-type]
        raise OverflowError
    offset = record.offset()
    return key, read, [bag.item(read, value, offset) for bag in rule.plan.bags]  # type: ignore[arg-type]


# -- changes of a table ------------------------------------------------------------------------------------------------


class ReadRow(NamedTuple):
    """A row that counts: its decoded fields, and the item for each bag."""

    read: Any
    items: list[Any]


def changed(groups: Groups, record: Record, now: float) -> None:
    """Process one change of a table: add the row after the change and subtract the row before it. A row that never
    counted is neither added nor subtracted."""
    try:
        before, after = change_events.rows(record.value() or b"")
    except Exception as error:
        refuse(groups, record, error)
        return
    gone, come = _counted(groups, record, before), _added(groups, record, after)
    key = record.key()
    state = groups.states.get(key) if key is not None else None
    if gone is not None and state is None:
        groups.refuse(record, "aggregate", "not-added", "takes a row back from a group that is not open")
        gone = None
    if come is not None and not groups.admits(key, state, record, come.items, now):  # type: ignore[arg-type]
        come = None
    if come is not None and state is None:
        state = groups.open(key, record, now)
    if key is not None and state is not None and (gone or come):
        _apply(groups, key, record, gone, come, now)


def _apply(groups: Groups, key: bytes, record: Record, gone: ReadRow | None, come: ReadRow | None, now: float) -> None:
    """Add one row and subtract the other. A group that has no rows left ends, and its last result has the reason
    EMPTY."""
    rule, early, state = groups.rule, groups.early, groups.states[key]
    before = rule.computable(state, groups.bags.get(key, [])) if early.on_change and state[COUNT] else None
    state[LAST] = record.offset()
    if come is not None:
        state[ROWS] += 1
        for add in rule.plan.adders:
            add(state, come.read)
        if come.items:
            groups.collect(key, state, come.items)
    if gone is not None:
        state[ROWS] -= 1
        for take in rule.plan.takers:
            take(state, gone.read)
        if gone.items:
            bags = zip(rule.plan.bags, gone.items, strict=True)
            groups.collect(key, state, [None if item is None else bag.form.without(item) for bag, item in bags])
    state[COUNT] += 1
    groups.touched[key] = state
    if groups.counts.links is not None:
        groups.counts.links.note(state[FIRST], record)
    if not state[ROWS]:
        groups.fire(key, EMPTY, now)
    elif early.emit is not None:
        groups.grew(key, state, now, before)


def _counted(groups: Groups, record: Record, row: bytes | None) -> ReadRow | None:
    """Return the row before a change. None: the change has no such row, or the row was refused when it arrived. Raises
    Halt."""
    try:
        read = None if row is None else _row(groups, record, row)
    except Halt:
        raise
    except Exception:  # the row was refused when it arrived
        return None
    return None if read is None or _size(groups, read) > groups.largest else read


def _added(groups: Groups, record: Record, row: bytes | None) -> ReadRow | None:
    """Return the row after a change. None: the change has no such row, or the row is refused now. Raises Halt."""
    try:
        read = None if row is None else _row(groups, record, row)
    except Exception as error:
        refuse(groups, record, error)
        return None
    return None if read is None or groups.outgrows(record, _size(groups, read)) else read


def _row(groups: Groups, record: Record, row: bytes) -> ReadRow:
    """Decode a row. `refuse` explains every error that it raises."""
    _, read, items = parsed(groups, RecordView(record, row, record.headers()))
    return ReadRow(read, items)


def _size(groups: Groups, row: ReadRow) -> int:
    """The bytes that the bags take of this row in an empty group. The size does not depend on the group, so the check
    gives the same answer when the row is added and when it is subtracted."""
    bags = zip(groups.rule.plan.bags, row.items, strict=True)
    return sum(bag.form.growth(None, item) for bag, item in bags if item is not None)


# -- one record --------------------------------------------------------------------------------------------------------


class NotAdded(Exception):
    """The group cannot take the record. `refuse` makes it a refused record."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        super().__init__()
        self.refuse = refuse


def addition(
    groups: Groups, bags: Bags, state: GroupState, record: Record, read: Any, items: list[Any]
) -> tuple[GroupState, bool]:
    """Add the record to the state. Returns the state and whether `until` ends the group. An `until` expression sees the
    group with the record. It gets a copy of the state; without one, the given state is changed. Raises NotAdded."""
    rule, value = groups.rule, record.value()
    with_it = state if rule.ending is None else state.copy()
    if rule.plan.folds and (why := groups.fold(with_it, record, value)) is not None:  # type: ignore[arg-type]
        raise NotAdded(why)
    with_it[COUNT] += 1
    with_it[LAST] = record.offset()
    for add in rule.plan.adders:
        add(with_it, read)
    if rule.ending is None:
        return with_it, rule.until is not None and rule.until(read)
    try:
        whole, kept = groups.whole(with_it, bags)
        return with_it, rule.ending.holds(record, whole, with_items(kept, items))
    except Exception as error:
        raise NotAdded(partial(refuse, groups, record, error)) from error


def add_to(
    groups: Groups,
    key: bytes,
    state: GroupState,
    record: Record,
    read: Any,
    items: list[Any],
    now: float,
    deadline: float | None = None,
) -> bool:
    """Add the whole record, or nothing of it: a user reducer or an `until` expression can refuse it. Returns False if
    the record was refused. `deadline` is the deadline that the record gives; None for none."""
    rule, early = groups.rule, groups.early
    before = rule.computable(state, groups.bags.get(key, [])) if early.on_change and state[COUNT] else None
    try:
        with_it, ends = addition(groups, groups.bags.get(key, []), state, record, read, items)
    except NotAdded as refusal:
        groups.unopen(key, state)
        refusal.refuse()
        return False
    if rule.ending is not None:
        groups.outcomes[rule.ending.name, "true" if ends else "false"] += 1
        state[:] = with_it
    if items:
        groups.collect(key, state, items)
    if rule.completion.since_last < inf:
        state[SEEN] = now
    over = deadline is not None and groups.give_deadline(key, state, deadline, now)
    groups.touched[key] = state
    if groups.counts.links is not None:
        groups.counts.links.note(state[FIRST], record)
    if ends or state[COUNT] >= rule.completion.most:
        groups.end(key, state, ends, now)
    elif over:
        groups.fire(key, "timeout", now)
    if early.emit is not None and groups.states.get(key) is state:
        groups.grew(key, state, now, before)
    return True


def refuse(groups: Groups, record: Record, error: Exception) -> None:
    """Determine why this record could not be read, and apply the policy for this reason. The most basic reason is
    checked first."""
    if isinstance(error, Halt | DecodeWaits):
        raise error
    if record.error() is not None:
        return
    rule, value = groups.rule, record.value()
    if isinstance(error, Unavailable):
        raise _waiting(record, f"{error}; {error.remedy}", error.why)
    if isinstance(error, ClauseFailed):
        _unanswered(groups, record, error)
    elif value is None:
        policy = rule.aggregation.on_null if rule.grouped else rule.on_error.decode
        _unread(groups, record, policy, "null-value", "the record has no value (a tombstone)")
    elif len(value) > rule.max_record_bytes:
        text = f"{len(value)} bytes are more than max_record_bytes {rule.max_record_bytes}"
        _unread(groups, record, rule.on_error.decode, "too-large", text)
    elif isinstance(error, msgspec.ValidationError) and _passes(rule.reader.valid, value):
        missing = rule.aggregation.on_missing if rule.grouped else rule.on_error.decode
        text = message(error)
        _unread(groups, record, missing, _unfit(text), text, cause(error, record.key() or b"", value))
    else:
        raised = cause(error, record.key() or b"", value)
        _unread(groups, record, rule.on_error.decode, "undecodable", _error_text(error, raised, value), raised)


def _unfit(text: str) -> str:
    """Derive the reason from the decoder's message for a value that lacks a required field or has a field of another
    type. Null counts as missing."""
    return "wrong-type" if text.startswith("Expected") and "got `null`" not in text else "missing-field"


def _unanswered(groups: Groups, record: Record, error: ClauseFailed) -> None:
    groups.outcomes[error.clause, "failed"] += 1
    policy = groups.rule.on_error.expression
    if policy == "skip":
        groups.skip(record)
    elif policy == "stop":
        place = f"{record.topic()}/{record.partition()}/{record.offset()}"
        raise ExpressionStopped(
            f"{place}: {error.clause} has no answer ({error}), and on_error.expression is stop; let it be dead-letter "
            "or skip, or correct the expression, and restart"
        )
    else:
        groups.refuse(record, "expression", "expression-failed", str(error), clause=error.clause)


def _unread(groups: Groups, record: Record, policy: str, reason: str, error: str, raised: Cause | None = None) -> None:
    """Apply the policy to a record that could not be read. `raised` is the cause of the error, which may lie in the
    user's code."""
    at = raised.where if raised is not None else ""
    if policy == "skip":
        groups.skip(record)
    elif policy == "stop" or (policy == "wait" and reason == "undecodable"):
        raise _halted(record, policy, reason, error if raised is None else _for_logs(error, raised))
    else:
        groups.refuse(record, "decode", reason, error, at)


def _halted(record: Record, policy: str, reason: str, error: str) -> DecodeWaits | DecodeStopped:
    place = f"{record.topic()}/{record.partition()}/{record.offset()}"
    if policy == "wait":
        why = "on_error.decode is wait: tried again until it can be read; else let it be dead-letter, and restart"
        return _waiting(record, f"{error}; {why}")
    return DecodeStopped(
        f"{place}: {reason} ({error}), and on_error.decode is stop; let it be dead-letter or skip, and restart"
    )


def _first_wrong(value: bytes, known: int) -> int:
    """The position of the first byte that is not UTF-8. `known` is that position in the part of the value that the
    decoder read."""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return error.start
    return known


def _waiting(record: Record, text: str, why: str = "undecodable") -> DecodeWaits:
    return DecodeWaits(f"{record.topic()}/{record.partition()}/{record.offset()}: {text}", record.offset(), why)


def _for_logs(error: str, raised: Cause) -> str:
    """The error text without the payload. msgspec ends its messages with the path of the field, as the type names
    it."""
    if raised.where:
        return raised.placed(raised.shown)
    reason, before, path = error.rpartition(" - at `$")
    return masked(reason, raised.payload) + before + path if before else masked(error, raised.payload)


def _passes(check: Callable[[bytes], Any], value: bytes) -> bool:
    try:
        check(value)
    except Exception:
        return False
    return True


def _error_text(error: Exception, raised: Cause, value: bytes) -> str:
    """The error text for the dead letter: the decoder's message if it quotes no payload, or the message of a user's
    decoder."""
    if isinstance(error, UnicodeDecodeError) or str(error) == NOT_UTF8:
        return f"invalid UTF-8 at byte {_first_wrong(value, getattr(error, 'start', 0))}"
    if isinstance(error, msgspec.DecodeError):
        return message(error)
    if isinstance(error, RecursionError) and not raised.where:
        return "is nested too deep to be decoded"
    return raised.text if raised.where else type(error).__name__
