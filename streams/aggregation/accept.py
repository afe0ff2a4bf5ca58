"""The hot path: records into open groups.

One loop, no call per record beside the decoder's and confluent-kafka's own where the rule is simple. Measured on this
loop (ns per record, tests/bench/hotpath.py): see the table there; a method call per reducer costs about 50, `headers()` 120-350,
so numbers of one field are folded inline and headers are read only when a group opens.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import msgspec

from streams.aggregation.groups import Groups
from streams.aggregation.layout import COLUMNS, COUNT, LAST, SEEN
from streams.contracts import Record
from streams.errors import Halt

SUM, MIN, MAX = COLUMNS, COLUMNS + 1, COLUMNS + 2


def accept(groups: Groups, records: Sequence[Record], now: float) -> None:
    """Take the records, all of one partition and in order, at the owner's time `now`. Pure: no I/O, no clock.

    Afterwards `groups.events` holds what fired and what was refused. Raises Halt where a limit says stop.
    """
    rule = groups.rule
    if rule.plan.bags or rule.plan.folds or rule.utf8 or groups.behind or groups.full or rule.aggregation.on_full != "fire-oldest":
        _accept_slowly(groups, records, now)
        return
    decode, key_of, until, largest = rule.decode, rule.key_of, rule.until, rule.max_record_bytes
    most, idle = rule.completion.most, rule.completion.since_last < inf
    inline, adders = rule.plan.inline, rule.plan.adders
    states, touched = groups.states, groups.touched
    get = states.get
    for record in records:
        try:
            value = record.value()
            read = decode(value)  # type: ignore[arg-type]
            key = record.key() if key_of is None else key_of(read)
            if len(value) > largest:  # type: ignore[arg-type]
                raise OverflowError
        except Exception as e:
            _refuse(groups, record, e)
            continue
        state = get(key)  # type: ignore[arg-type]
        if state is None:
            state = groups.open(key, record, now)
            if state is None:
                continue
            if inline:
                state[MIN] = state[MAX] = read.f0
        state[COUNT] = count = state[COUNT] + 1
        state[LAST] = record.offset()
        if inline:
            number = read.f0
            state[SUM] += number
            if number < state[MIN]:
                state[MIN] = number
            elif number > state[MAX]:
                state[MAX] = number
        else:
            for add in adders:
                add(state, read)
        if idle:
            state[SEEN] = now
        touched[key] = state  # type: ignore[index]
        if count >= most:
            groups.reached(key, state, now)  # type: ignore[arg-type]
        elif until is not None and until(read):
            groups.fire(key, "until", now)  # type: ignore[arg-type]


def _accept_slowly(groups: Groups, records: Sequence[Record], now: float) -> None:
    """The same with everything that a rule can ask: bags, user reducers, limits that refuse, groups that are overdue."""
    rule = groups.rule
    decode, key_of, until, plan = rule.decode, rule.key_of, rule.until, rule.plan
    most, idle, adders = rule.completion.most, rule.completion.since_last < inf, plan.adders
    states = groups.states
    for record in records:
        try:
            value = record.value()
            read = decode(value)  # type: ignore[arg-type]
            key = record.key() if key_of is None else key_of(read)
            if len(value) > rule.max_record_bytes:  # type: ignore[arg-type]
                raise OverflowError
            if rule.utf8 and not value.isascii():  # type: ignore[union-attr]
                value.decode()  # type: ignore[union-attr]
            items = [bag.item(read, value) for bag in plan.bags]  # type: ignore[arg-type]
        except Exception as e:
            _refuse(groups, record, e)
            continue
        state = states.get(key) if key is not None else None
        if state is not None and groups.behind and rule.completion.due(state) <= now:
            groups.fire(key, "timeout", now)  # type: ignore[arg-type]
            state = None
        if key is not None and not _room(groups, key, record, len(value) if items else 0, now):  # type: ignore[arg-type]
            continue
        state = states.get(key) if key is not None else None
        state = groups.open(key, record, now) if state is None else state
        if state is None or (plan.folds and not groups.fold(key, state, record, value)):  # type: ignore[arg-type]
            continue
        state[COUNT] += 1
        state[LAST] = record.offset()
        for add in adders:
            add(state, read)
        if items:
            groups.collect(key, state, items, len(value))  # type: ignore[arg-type]
        if idle:
            state[SEEN] = now
        groups.touched[key] = state  # type: ignore[index]
        if state[COUNT] >= most:
            groups.reached(key, state, now)  # type: ignore[arg-type]
        elif until is not None and until(read):
            groups.fire(key, "until", now)  # type: ignore[arg-type]


def _room(groups: Groups, key: bytes, record: Record, size: int, now: float) -> bool:
    if key in groups.full:
        return groups.relieve(record, now, f"max_items {groups.rule.aggregation.max_items}")
    return not size or groups.admits(key, groups.states.get(key), record, size, now)


def _refuse(groups: Groups, record: Record, error: Exception) -> None:
    """Why this record could not be read, in the order in which a person would look."""
    if isinstance(error, Halt):
        raise error
    if record.error() is not None:
        return
    rule, value = groups.rule, record.value()
    if value is None:
        if rule.aggregation.on_null == "skip":
            groups.counts["skipped"] += 1
        else:
            groups.refuse(record, "decode", "null-value", "the record has no value (a tombstone)")
    elif len(value) > rule.max_record_bytes:
        groups.refuse(record, "decode", "too-large", f"{len(value)} bytes are more than max_record_bytes {rule.max_record_bytes}")
    elif isinstance(error, msgspec.ValidationError) and _passes(rule.valid, value):
        if rule.aggregation.on_missing == "skip":
            groups.counts["skipped"] += 1
        else:
            groups.refuse(record, "decode", "missing-field", str(error))
    else:
        groups.refuse(record, "decode", "undecodable", _said(error))


def _passes(check: Callable[[bytes], Any], value: bytes) -> bool:
    try:
        check(value)
    except Exception:
        return False
    return True


def _said(error: Exception) -> str:
    """The decoder's own words where they are known to quote no payload."""
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    return str(error) if isinstance(error, msgspec.DecodeError) else type(error).__name__


