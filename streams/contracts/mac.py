"""The message authentication code (MAC) of a record: it proves that a process with a key of the app wrote the record.

The header `sluicegate-mac` covers the topic, the partition, the key, the value, the id, shard and number of the row,
and the headers in which a result describes its records. If a record has a header that steers a reader, the MAC covers
every header of Sluicegate. So a MAC that was copied to another topic, another partition or other content proves
nothing. A copy of the whole record is a repeat.
"""

from collections.abc import Iterable, Sequence
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
"""Headers that change how a reader treats the record, and do not only describe it."""
OF_RESULTS = FIRE, FIRST, LAST, COUNT, REASON, AGENT, WINDOW, CLOSED, REVISION, REPLACES
COVERED = ID, SHARD, NUMBER, *OF_RESULTS
"""The headers that a receiver or a command reads of any other record."""
DIGEST_SIZE = 16
BEFORE = 4  # the topic, the partition, the key and the value come before the headers
CODE = BEFORE + len(COVERED)
STEERS, OTHER = CODE + 1, CODE + 2
PLACES = {name: place for place, name in enumerate((*COVERED, MAC), BEFORE)} | dict.fromkeys(STEERING, STEERS)
"""The index of each header in `MacHeaders`. The names of other headers are added as they are read."""
MOST_NAMES, LONGEST_NAME = 1_000, 100  # other names in PLACES, and their characters: any writer can use any name
MacHeaders = list[Any]
"""Room for the fields before the headers; the values of the headers COVERED, None for missing ones; then the MAC, False
if it is missing; then a value that is not False if a header steers; then the value of any other header."""
_NOTHING: MacHeaders = [*[None] * CODE, False, False, None]
_encode = msgspec.msgpack.Encoder().encode


def read(pairs: Sequence[Header]) -> MacHeaders:
    """Collect the headers that a MAC needs, in one pass. If a name occurs twice, the first header belongs to the
    writer."""
    values, places = _NOTHING.copy(), PLACES
    try:
        for name, value in reversed(pairs):
            values[places[name]] = value
    except KeyError:
        return _read_new(pairs)
    return values


def _read_new(pairs: Sequence[Header]) -> MacHeaders:
    """`read` for a record that has a header of another name."""
    values = _NOTHING.copy()
    for name, value in reversed(pairs):
        if name not in PLACES and len(PLACES) < MOST_NAMES and len(name) <= LONGEST_NAME:
            PLACES[name] = OTHER
        values[PLACES.get(name, OTHER)] = value
    return values


class Mac:
    """The keys of an app. The first one signs, and each verifies. From the store's time `since` on every process signs
    with one of them. Before it, a record may have no MAC, or the MAC of a key that no longer verifies."""

    __slots__ = ("_hashes", "_keys", "app", "since")

    def __init__(self, app: str, keys: Sequence[bytes], since: float = 0.0) -> None:
        self.app = app
        self._take(keys, since)

    def _take(self, keys: Sequence[bytes], since: float) -> None:
        """Use these keys. A hash is initialized once for each key, because copying it is faster."""
        self._keys, self.since = tuple(keys), since
        self._hashes = [blake2b(digest_size=DIGEST_SIZE, key=key) for key in keys]

    def renew(self) -> None:
        """Read the keys again if they can change."""

    def signed(self, rows: Iterable[OutboxRow]) -> list[OutboxRow]:
        """Add the MAC to each row."""
        begun, signed = self._hashes[0], []
        for row in rows:
            number, lineage, id, topic, partition, key, value, pairs = astuple(row)
            values = read(pairs)
            if values[CODE] is not False:
                pairs = [header for header in pairs if header[0] != MAC]
            digest = begun.copy()
            digest.update(covered(topic, partition, key, value, pairs, values))
            pairs = [*pairs, (MAC, digest.hexdigest().encode())]
            signed.append(OutboxRow(number, lineage, id, topic, partition, key, value, pairs))
        return signed

    def proves(self, record: Record, values: MacHeaders | None = None) -> bool:
        """Whether a process with a key of the app wrote this record to this partition. `values` is the result of `read`
        for its headers."""
        if values is None:
            values = read(headers(record))
        code = values[CODE]
        if not code:
            return False
        pairs = () if values[STEERS] is False else headers(record)
        content = covered(record.topic(), record.partition(), record.key(), record.value(), pairs, values)
        return self._verifies(content, code) or (self._read_again() and self._verifies(content, code))

    def _verifies(self, content: bytes, code: bytes) -> bool:
        """Whether one of the keys made this MAC."""
        for begun in self._hashes:
            digest = begun.copy()
            digest.update(content)
            if compare_digest(digest.hexdigest().encode(), code):
                return True
        return False

    def _read_again(self) -> bool:
        """Read the keys again before a MAC is refused. Returns False if they cannot change or were just read."""
        return False


def covered(
    topic: str, partition: int, key: bytes | None, value: bytes | None, pairs: Sequence[Header], values: MacHeaders
) -> bytes:
    """The bytes that the MAC of a record covers. `values` is the result of `read` for its headers, and is used up. The
    headers themselves count only if one of them steers."""
    if values[STEERS] is False:
        values[0], values[1], values[2], values[3] = topic, partition, key, value
        del values[CODE:]  # `values` is the content now: a second list of 17 takes longer than the hash of a block
        return _encode(values)
    ours = [header for header in pairs if header[0].startswith(OWN) and header[0] != MAC]
    return _encode((topic, partition, key, value, ours))
