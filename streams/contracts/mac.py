"""The message authentication code (MAC) of a record: it proves that a process with a key of the app wrote the record.

The header `sluicegate-mac` covers the topic, the partition, the key, and the id, shard and number of the row. Of a
record with a header that steers a reader it covers the value and every header of Sluicegate. So a MAC that was copied
to another topic, another partition or another content proves nothing. A copy of the whole record is a repeat.
"""

from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

import msgspec

from sluicegate.streams.contracts.record import Header, Record, headers
from sluicegate.streams.contracts.values import OutboxRow

MAC = "sluicegate-mac"
ID, SHARD, NUMBER = "sluicegate-id", "sluicegate-shard", "sluicegate-seq"
STATE = "sluicegate-state"
OURS = "sluicegate-"
STEERING = frozenset(
    ("sluicegate-retried-for", "sluicegate-origin", "sluicegate-time", STATE, "sluicegate-dead-reason")
)
"""Headers that say how a reader treats the record, and not only what it is."""
DIGEST_SIZE = 16
_encode = msgspec.msgpack.encode


class Mac:
    """The keys of an app, the newest one first: it signs, and each of them proves. Records are signed by every process
    from the store's time `since` on. Before it, a process of an earlier release may write records without a MAC."""

    __slots__ = ("_keys", "app", "since")

    def __init__(self, app: str, keys: Sequence[bytes], since: float = 0.0) -> None:
        self.app, self._keys, self.since = app, tuple(keys), since

    def signed(self, row: OutboxRow) -> OutboxRow:
        """The row as it is sent."""
        kept = [header for header in row.headers if header[0] != MAC]
        content = covered(row.topic, row.partition, row.key, row.value, kept)
        ours = MAC, self._code(self._keys[0], content)
        return OutboxRow(row.number, row.lineage, row.id, row.topic, row.partition, row.key, row.value, [*kept, ours])

    def proves(self, record: Record) -> bool:
        """Whether a process with a key of the app wrote this record to this partition."""
        found = headers(record)
        code = next((value for name, value in found if name == MAC), None)
        if code is None:
            return False
        kept = [header for header in found if header[0] != MAC]
        content = covered(record.topic(), record.partition(), record.key(), record.value(), kept)
        return any(compare_digest(self._code(key, content), code) for key in self._keys)

    @staticmethod
    def _code(key: bytes, content: bytes) -> bytes:
        return blake2b(content, digest_size=DIGEST_SIZE, key=key).hexdigest().encode()


def covered(topic: str, partition: int, key: bytes | None, value: bytes | None, kept: Sequence[Header]) -> bytes:
    """What the MAC of a record with these headers covers."""
    named: dict[str, Any] = dict(reversed(kept))  # the first header of a name is the writer's
    if STEERING.isdisjoint(named):
        return _encode((topic, partition, key, named.get(ID), named.get(SHARD), named.get(NUMBER)))
    return _encode((topic, partition, key, value, [header for header in kept if header[0].startswith(OURS)]))
