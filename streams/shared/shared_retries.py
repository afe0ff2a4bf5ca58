"""The encoding of a completed group in the shared buffer. `dead retry` inserts it, and a worker fires it again.

It is a separate batch with one entry. Its position counts the retries of its dead letter.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.contracts.headers import DEAD_ITEM, DEAD_REASON, FIRST
from sluicegate.streams.contracts.leased_values import Entry, Pack, pack_data, pack_parts
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.handlers.packing import pack, unpack
from sluicegate.streams.handlers.values import Message
from sluicegate.streams.shared.shared_records import RecordOrigin, SharedRecord

GROUP = "%retry/"
"""The prefix of the names of these batches. No name of a key has it: in those, two hexadecimal digits follow each %
(`group_of`)."""
MOST_MEMBERS = 64 * 1024  # bytes of the header DEAD_MEMBERS
OffsetRun = tuple[str, int, list[int]]
"""Topic, partition, the offset of the first message, and the difference of each next offset to the one before."""

_encode = msgspec.msgpack.Encoder().encode
_common = msgspec.msgpack.Decoder(tuple[str, RecordOrigin, RecordOrigin, bytes | None]).decode
_runs = msgspec.json.Decoder(list[OffsetRun]).decode


class RetriedGroup(NamedTuple):
    """A completed group from `first` to `last`. `run` is the id of the retry. `members` is the header DEAD_MEMBERS of
    its dead letter, or None."""

    run: str
    first: RecordOrigin
    last: RecordOrigin
    members: bytes | None
    fire: Fire


def packed(group: RetriedGroup) -> Pack:
    name = GROUP + group.run
    return Pack(name, name, 1, pack_data(_encode(group[:4]), [pack(group.fire)]))


def is_retried(group: str) -> bool:
    """Whether the batch or entry of this group is a completed group."""
    return group.startswith(GROUP)


def unpacked(entries: Sequence[Entry]) -> RetriedGroup:
    """Decode the group. Raises PersistenceError."""
    try:
        (entry,) = entries
        common, item = pack_parts(entry.data)
        run, first, last, members = _common(common)
        fire = unpack(item, (first.topic, first.partition), first.offset, partial(Message, None))
        if not isinstance(fire, Fire):
            raise ValueError("a message")
        return RetriedGroup(run, first, last, members, fire)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        why = type(error).__name__
        raise PersistenceError(f"a group that was retried cannot be read from the shared buffer ({why})") from error


def members_of(records: Sequence[SharedRecord]) -> bytes | None:
    """The places of these messages in order, for the header DEAD_MEMBERS. None: they are too long."""
    runs: list[OffsetRun] = []
    before = 0
    for record in records:
        topic, _, number, offset = record.origin
        if runs and runs[-1][:2] == (topic, number):
            runs[-1][2].append(offset - before)
        else:
            runs.append((topic, number, [offset]))
        before = offset
    text = msgspec.json.encode(runs)
    return text if len(text) <= MOST_MEMBERS else None


def places_of(members: bytes) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each message, in order. Raises ValueError and msgspec.MsgspecError."""
    places = []
    for topic, number, steps in _runs(members):
        offset = 0
        for step in steps:
            offset += step
            places.append((topic, number, offset))
    return places


def is_letter(headers: Iterable[Header]) -> bool:
    return any(name == DEAD_REASON for name, _ in headers)


def lacks_fields(row: OutboxRow) -> bool:
    """Whether the row is the dead letter of a group without computed fields. It has the places of its messages, so a
    retry can compute the fields from their topics."""
    headers = dict(row.headers)
    reason = headers.get(DEAD_REASON)
    whole = FIRST in headers and DEAD_ITEM not in headers
    return whole and (reason == b"overflow" or (reason is not None and row.value is None))
