"""How the leased contracts speak to Redis: one script per step, all keys with one hash tag, times in microseconds.

That tag is one slot, so on a cluster one node holds all of it. A failover, or a server that lost its last writes, also
takes back leases and their tokens, and this module cannot notice it. A message that is sent again has the same id.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from sluicegate.connectors import times
from sluicegate.connectors.redis import connection
from sluicegate.connectors.redis.addresses import RedisServer
from sluicegate.connectors.redis.scripts_leased import PREFIX
from sluicegate.streams.contracts.lanes import lane_of
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.values import Changes

ScriptStep = Callable[[Sequence[Any]], Any]

encode = msgspec.msgpack.Encoder().encode


def step(server: RedisServer, text: str) -> ScriptStep:
    """The script, to be called with its arguments."""
    run = connection.script(server, text)
    return lambda args: run((PREFIX,), args)


def instant(number: float | bytes) -> datetime:
    """Of microseconds since 1970."""
    return times.moment(int(number))


def text(data: bytes) -> str:
    return str(data, "utf-8")


def outbox_arguments(messages: Sequence[OutboxMessage]) -> Iterator[Any]:
    """Of each: id, hash of its key (the script takes it modulo the lanes that there are by then), message."""
    for each in messages:
        packed = encode((each.id, each.topic, each.key, each.value, each.headers, each.lane_key))
        yield from (each.id, lane_of(each, 2**32), packed)


def due(moment: datetime) -> bytes:
    return times.micros(moment).to_bytes(8, "big", signed=True)


def moment(due: bytes) -> datetime:
    return instant(int.from_bytes(due, "big", signed=True))


def timeout_arguments(timeouts: Sequence[Timeout]) -> Iterator[Any]:
    """Of each: id, and due_at with the rest behind it."""
    for each in timeouts:
        yield str(each.id)
        yield due(each.due_at) + encode((each.destination, each.key, each.value, each.headers, each.owner))


def schedule_arguments(changes: Changes) -> list[Any]:
    """Of a commit: two lists, each after its length."""
    timeouts = list(timeout_arguments(changes.timeouts))
    return [len(changes.cancels), *(str(id) for id in changes.cancels), len(timeouts), *timeouts]


def timeout(id: UUID, payload: bytes, rest: Callable[[bytes], Any]) -> Timeout:
    destination, key, value, headers, owner = rest(payload[8:])
    return Timeout(id, destination, moment(payload[:8]), key, value, headers, owner)
