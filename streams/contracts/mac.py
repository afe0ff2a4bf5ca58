"""The message authentication code (MAC) of a record: it proves that a process with a key of the app wrote the record.

The header `sluicegate-mac` covers the topic, the partition, the key, the value, the id, shard and number of the row,
and what a result says of the records that it is made of. Of a record with a header that steers a reader it covers every
header of Sluicegate. So a MAC that was copied to another topic, another partition or another content proves nothing. A
copy of the whole record is a repeat.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

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
)
from sluicegate.streams.contracts.record import Header, Record, headers
from sluicegate.streams.contracts.values import OutboxRow

STEERING = frozenset((RETRIED_FOR, ORIGIN, TIME, STATE, DEAD_REASON))
"""Headers that say how a reader treats the record, and not only what it is."""
OF_RESULTS = FIRE, FIRST, LAST, COUNT, REASON, AGENT, WINDOW, CLOSED, REVISION, REPLACES
COVERED = ID, SHARD, NUMBER, *OF_RESULTS
"""What a receiver or a command reads of any other record."""
CODE, STEERS = len(COVERED), len(COVERED) + 1
"""The places in `MacHeaders` behind those of COVERED."""
DIGEST_SIZE = 16
PLACES = {**{name: place for place, name in enumerate((*COVERED, MAC))}, **dict.fromkeys(STEERING, STEERS)}
MacHeaders = list[Any]
"""The values of the headers COVERED, None for those that are missing; the MAC, False where there is none; and what is
not False if a header steers."""
_NOTHING: MacHeaders = [*[None] * len(COVERED), False, False]
_encode = msgspec.msgpack.Encoder().encode


def read(pairs: Sequence[Header], places: Mapping[str, int] = PLACES) -> MacHeaders:
    """What a MAC needs of the headers, read once; or those alone that have `places`, the same as in PLACES. Of two
    headers with one name, the first is the writer's."""
    values, place_of = _NOTHING.copy(), places.get
    for name, value in reversed(pairs):
        if (place := place_of(name)) is not None:
            values[place] = value
    return values


class Mac:
    """The keys of an app, of which the first one signs, and each proves. From the store's time `since` on every process
    signs with one of them. Before it, a record may have no MAC, or that of a key which proves no more."""

    __slots__ = ("_hashes", "_keys", "app", "since")

    def __init__(self, app: str, keys: Sequence[bytes], since: float = 0.0) -> None:
        self.app = app
        self._take(keys, since)

    def _take(self, keys: Sequence[bytes], since: float) -> None:
        """A hash is begun with each key once: a copy of it takes less time."""
        self._keys, self.since = tuple(keys), since
        self._hashes = [blake2b(digest_size=DIGEST_SIZE, key=key) for key in keys]

    def renew(self) -> None:
        """Read the keys again where they can change."""

    def signed(self, row: OutboxRow) -> OutboxRow:
        """The row as it is sent."""
        number, lineage, id, topic, partition, key, value, pairs = astuple(row)
        values = read(pairs)
        if values[CODE] is not False:
            pairs = [header for header in pairs if header[0] != MAC]
        code = _code(self._hashes[0], covered(topic, partition, key, value, pairs, values))
        return OutboxRow(number, lineage, id, topic, partition, key, value, [*pairs, (MAC, code)])

    def proves(self, record: Record, values: MacHeaders | None = None) -> bool:
        """Whether a process with a key of the app wrote this record to this partition. `values` is what `read` makes of
        its headers."""
        if values is None:
            values = read(headers(record))
        code = values[CODE]
        if not code:
            return False
        pairs = () if values[STEERS] is False else headers(record)
        content = covered(record.topic(), record.partition(), record.key(), record.value(), pairs, values)
        return self._made(content, code) or (self._read_again() and self._made(content, code))

    def _made(self, content: bytes, code: bytes) -> bool:
        """Whether a key made this MAC."""
        for begun in self._hashes:  # noqa: SIM110 - a generator takes a frame more
            if compare_digest(_code(begun, content), code):
                return True
        return False

    def _read_again(self) -> bool:
        """Whether the keys were read again, before a MAC is refused."""
        return False


def _code(begun: blake2b, content: bytes) -> bytes:
    made = begun.copy()
    made.update(content)
    return made.hexdigest().encode()


def covered(
    topic: str, partition: int, key: bytes | None, value: bytes | None, pairs: Sequence[Header], values: MacHeaders
) -> bytes:
    """What the MAC of a record with these headers covers. `values` is what `read` makes of them; the headers themselves
    count only if one of them steers."""
    if values[STEERS] is False:
        return _encode((topic, partition, key, value, *values[:CODE]))
    ours = [header for header in pairs if header[0].startswith(OWN) and header[0] != MAC]
    return _encode((topic, partition, key, value, ours))
