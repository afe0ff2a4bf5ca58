"""The message authentication code (MAC) of a record: it proves that a process with a key of the app wrote the record.

The header `sluicegate-mac` covers the topic, the partition, the key, the value, the id, shard and number of the row,
and what a result says of the records that it is made of. Of a record with a header that steers a reader it covers every
header of Sluicegate. So a MAC that was copied to another topic, another partition or another content proves nothing. A
copy of the whole record is a repeat.
"""

from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest

import msgspec
from msgspec.structs import astuple

from sluicegate.streams.contracts.headers import (
    AGENT,
    CLOSED,
    COUNT,
    DEAD_REASON,
    FIRE,
    FIRST,
    ID,
    LAST,
    MAC,
    NUMBER,
    ORIGIN,
    OWN,
    REASON,
    REPLACES,
    RETRIED_FOR,
    REVISION,
    SHARD,
    STATE,
    TIME,
    WINDOW,
    MessageHeaders,
    by_name,
)
from sluicegate.streams.contracts.record import Header, Record, headers
from sluicegate.streams.contracts.values import OutboxRow

STEERING = frozenset((RETRIED_FOR, ORIGIN, TIME, STATE, DEAD_REASON))
"""Headers that say how a reader treats the record, and not only what it is."""
OF_RESULTS = FIRE, FIRST, LAST, COUNT, REASON, AGENT, WINDOW, CLOSED, REVISION, REPLACES
COVERED = ID, SHARD, NUMBER, *OF_RESULTS
"""What a receiver or a command reads of any other record."""
DIGEST_SIZE = 16
_encode = msgspec.msgpack.encode


class Mac:
    """The keys of an app, of which the first one signs, and each proves. From the store's time `since` on every process
    signs with one of them. Before it, a record may have no MAC, or that of a key which proves no more."""

    __slots__ = ("_keys", "app", "since")

    def __init__(self, app: str, keys: Sequence[bytes], since: float = 0.0) -> None:
        self.app, self._keys, self.since = app, tuple(keys), since

    def renew(self) -> None:
        """Read the keys again where they can change."""

    def signed(self, row: OutboxRow) -> OutboxRow:
        """The row as it is sent."""
        number, lineage, id, topic, partition, key, value, told = astuple(row)
        named = by_name(told)
        if MAC in named:
            told = [header for header in told if header[0] != MAC]
        code = self._code(self._keys[0], covered(topic, partition, key, value, told, named))
        return OutboxRow(number, lineage, id, topic, partition, key, value, [*told, (MAC, code)])

    def proves(self, record: Record) -> bool:
        """Whether a process with a key of the app wrote this record to this partition."""
        told = headers(record)
        named = by_name(told)
        code = named.get(MAC)
        if code is None:
            return False
        content = covered(record.topic(), record.partition(), record.key(), record.value(), told, named)
        return any(compare_digest(self._code(key, content), code) for key in self._keys)

    @staticmethod
    def _code(key: bytes, content: bytes) -> bytes:
        return blake2b(content, digest_size=DIGEST_SIZE, key=key).hexdigest().encode()


def covered(
    topic: str, partition: int, key: bytes | None, value: bytes | None, told: Sequence[Header], named: MessageHeaders
) -> bytes:
    """What the MAC of a record with these headers covers."""
    if STEERING.isdisjoint(named):
        return _encode((topic, partition, key, value, *map(named.get, COVERED)))
    ours = [header for header in told if header[0].startswith(OWN) and header[0] != MAC]
    return _encode((topic, partition, key, value, ours))
