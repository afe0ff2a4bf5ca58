"""The encoding of a sealed message or group in the changelog."""

from collections.abc import Callable
from typing import Any

import msgspec

from sluicegate.schemas import json
from sluicegate.streams.aggregation.events import Closing, Fire
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.contracts.record import KeptRecord, headers
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.handlers.values import Message

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
# the bytes as read: a message that is taken out of a group is sent on unchanged
_values = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_LACKING: tuple[Any, ...] = (0, None, 1, None)
"""The defaults of `retries`, `again`, `revision` and `final` for an entry without them."""


def pack(item: Message | Fire) -> bytes:
    if isinstance(item, Message):
        record = item.record
        return _encode((0, record.key(), record.value(), headers(record), record.timestamp()))
    fields = (item.key, item.count, item.reason, item.last, item.opened, item.closed, item.trace)
    window = None if item.window is None else msgspec.structs.astuple(item.window)
    more: tuple[object, ...] = () if window is None else (window,)
    if item.revision > 1 or item.final is not None:
        more = (window, item.retries, item.again, item.revision, item.final)
    elif item.retries:
        more = (window, item.retries, item.again)
    return _encode((1, *fields, json.encode(item.values), item.removed, *more))


def unpack(
    packed: bytes, place: tuple[str, int], number: GroupNumber, read: Callable[[KeptRecord], Message]
) -> Message | Fire:
    kind, *rest = _decode(packed)
    first = in_order(number)[0]
    if kind == 0:
        key, value, pairs, at = rest
        return read(KeptRecord((*place, first), key, value, [(name, text) for name, text in pairs], (at[0], at[1])))
    key, count, reason, last, opened, closed, trace, values, *more = rest  # older entries lack some of the others
    removed = tuple(more[0]) if more else ()
    window = Closing(*more[1]) if len(more) > 1 and more[1] is not None else None
    stored = tuple(more[2:])
    retries, again, revision, final = stored + _LACKING[len(stored) :]
    fire = Fire(key, count, reason, first, last, opened, closed, trace, _values(values), removed, window=window)
    return msgspec.structs.replace(fire, retries=retries, again=again, revision=revision, final=final)
