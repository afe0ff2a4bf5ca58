"""Deterministic ids: UUIDv5 over a canonical JSON array in one fixed namespace (docs/protocol.md).

The same input gives the same ids on every worker and after every crash. No counter is kept. The part that all ids of a
partition share is hashed once: an id costs 1 µs instead of 4, and a result needs two ids.
"""

import hashlib
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid5

from sluicegate.schemas.json import canonical
from sluicegate.streams.contracts.values import GroupNumber, Partition

Identify = Callable[[GroupNumber], str]
"""The id of the message or group with this number."""

NAMESPACE = UUID("9c1f6a52-6f0e-5d0b-8a53-0f7d3c1f2e64")
VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def timeout_id(call: str, index: int) -> UUID:
    """The id of timeout number `index` of a handler's call, counted from 0."""
    return uuid5(NAMESPACE, canonical(["timeout", call, index]).decode())


def named_timeout_id(app: str, name: str) -> UUID:
    """The id of the timeout with this name in the app."""
    return uuid5(NAMESPACE, canonical(["timeout-named", app, name]).decode())


def schedule_id(app: str, *parts: str | None) -> UUID:
    """The id of the timeout of a schedule. `parts` are all settings of the schedule in the file of the app."""
    return uuid5(NAMESPACE, canonical(["schedule", app, *parts]).decode())


def _hashed(*parts: str | int) -> Callable[[], Any]:
    """A function that copies the hash of the canonical array [*parts, ...]."""
    return hashlib.sha1(NAMESPACE.bytes + canonical(parts)[:-1] + b",", usedforsecurity=False).copy


def _numbered(shared: Callable[[], Any]) -> Identify:
    """As uuid.uuid5 of the canonical array [*parts, number], or of [*parts, *numbers]. All parts except the numbers are
    hashed in advance."""

    def identify(number: GroupNumber) -> str:
        digest = shared()
        digest.update(b"%d]" % number if isinstance(number, int) else b"%s]" % ",".join(map(str, number)).encode())
        return _text(digest.hexdigest())

    return identify


def _text(digest: str) -> str:
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{VARIANT[digest[16]]}{digest[17:20]}-{digest[20:32]}"


output_hash = hashlib.sha1(NAMESPACE.bytes + b'["output","', usedforsecurity=False).copy
"""Copies the hash of the id of an output, before the id of its fire."""


def fire_hash(partition: Partition, topic_id: str) -> Callable[[], Any]:
    """Copies the hash of the id of a fire, before the number of the group."""
    return _hashed("fire", partition.app, partition.agent, partition.topic, topic_id, partition.number)


def fire_ids(partition: Partition, topic_id: str) -> Identify:
    """The ids of fires by the number of the group."""
    return _numbered(fire_hash(partition, topic_id))


def dead_ids(partition: Partition, topic_id: str) -> Identify:
    """The ids of dead letters by the record's offset."""
    return _numbered(_hashed("dead", partition.app, partition.agent, partition.topic, topic_id, partition.number))


def output_id(fire: str, index: int) -> str:
    """The id of output number `index` of a fire, counted from 0."""
    digest = output_hash()
    digest.update(b'%s",%d]' % (fire.encode(), index))  # the id of a fire contains no character that JSON escapes
    return _text(digest.hexdigest())


def history_id(fire: str) -> str:
    """The id of the history message of the group with this fire."""
    return str(uuid5(NAMESPACE, canonical(["history", fire]).decode()))


def replayed_id(fire: str, number: int) -> str:
    """The id that a handler gets for the group with this fire in replay `number`."""
    return str(uuid5(NAMESPACE, canonical(["replay", fire, number]).decode()))


def retry_id(dead: str, number: int) -> str:
    """The id of a dead letter's record when it is sent again for the first time (0) or another time."""
    return str(uuid5(NAMESPACE, canonical(["retry", dead, number]).decode()))


def retried_id(output: str, retry: str) -> str:
    """The id of an output that a retry makes again for a group of `scope: shared`. `retry` is the id of the retry."""
    return str(uuid5(NAMESPACE, canonical(["retried", output, retry]).decode()))


def in_order(number: GroupNumber) -> tuple[int, ...]:
    """Sorts numbers by their first records, then by their windows and revisions."""
    return (number,) if isinstance(number, int) else number
