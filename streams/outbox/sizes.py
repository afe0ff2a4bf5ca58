"""The size limits of messages, and the content of a dead letter for a larger record."""

import hashlib
from collections.abc import Sequence

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.headers import DEAD_CUT, DEAD_DIGEST, DEAD_SIZE
from sluicegate.streams.contracts.record import Header

MESSAGE_BYTES = 1_000_000  # librdkafka's default of message.max.bytes
LARGEST = 4 * 1024 * 1024
"""The largest row of any store. MariaDB escapes the bytes of a value, which may double it, and accepts 10 MiB. A
document of MongoDB may have 16 MiB."""
LONGEST_HEAD = 64 * 1024
OF_ROWS = 512  # bytes of the headers that every row gets, and the framing
PER_HEADER = 12  # bytes of framing


def digest(value: bytes | None) -> bytes:
    return f"sha256:{hashlib.sha256(value or b'').hexdigest()}".encode()


def longest(app: App) -> int:
    """The largest message of this app in bytes, for any of its clusters."""
    every = (app.kafka, *app.clusters.values())
    return min(LARGEST, *(int(settings.get("message.max.bytes", MESSAGE_BYTES)) for settings in every))


def size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """The size of the message in bytes. Kafka's own count is not larger."""
    framed = sum(len(name) + len(content or b"") + PER_HEADER for name, content in headers)
    return len(key or b"") + len(value or b"") + framed + OF_ROWS


def cut(
    key: bytes | None, value: bytes | None, its: Sequence[Header], ours: Sequence[Header], most: int
) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Key, value and headers of a dead letter of at most `most` bytes. `its` are the headers of the record, `ours`
    explain the letter. For a record that is too large, the letter has the beginning of the value, the short parts of
    the rest, and the size and the digest of the whole value."""
    if size(key, value, [*its, *ours]) <= most:
        return key, value, [*its, *ours]
    head = max(0, min(LONGEST_HEAD, (most - size(None, None, ours)) // 4))
    parts = ["value"] if len(value or b"") > head else []
    measures: list[Header] = [(DEAD_SIZE, b"%d" % len(value or b"")), (DEAD_DIGEST, digest(value))]
    if len(key or b"") > head:
        key, parts = None, [*parts, "key"]
    if size(None, None, its) - OF_ROWS > head:
        its, parts = (), [*parts, "headers"]
    measures.append((DEAD_CUT, " ".join(parts).encode()))
    return key, None if value is None else value[:head], [*its, *ours, *measures]
