"""Scripts and stored forms of the leased contracts in Redis: one script per step, times in microseconds.

All keys have one hash tag, so one node of a cluster holds them all. A failover, or a server that lost its last writes,
also loses leases and their tokens, and this module cannot notice it. A message that is sent again has the same id.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from sluicegate.connectors import times
from sluicegate.connectors.redis import connection
from sluicegate.connectors.redis.addresses import RedisServer
from sluicegate.connectors.redis.scripts_leased import PREFIX, prefix_of
from sluicegate.streams.contracts.lanes import lane_of
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.values import Changes

encode = msgspec.msgpack.Encoder().encode


def script_runner(server: RedisServer, app: str) -> Callable[..., Any]:
    """A function that runs a script of the leased contracts: text, then arguments. The timeouts and messages belong to
    `app`."""
    keys = PREFIX, prefix_of(app)
    return lambda text, *args: connection.run_script(server, text, keys, args)


def instant(number: float | bytes) -> datetime:
    """The datetime of a time in microseconds since 1970."""
    return times.moment(int(number))


def text(data: bytes) -> str:
    return str(data, "utf-8")


def outbox_arguments(messages: Sequence[OutboxMessage]) -> Iterator[Any]:
    """The script arguments of messages: id, hash of its key (the script computes the lane from it), and the message in
    msgpack."""
    for message in messages:
        packed = encode((message.id, message.topic, message.key, message.value, message.headers, message.lane_key))
        yield from (message.id, lane_of(message, 2**32), packed)


def due(moment: datetime) -> bytes:
    return times.micros(moment).to_bytes(8, "big", signed=True)


def moment(due: bytes) -> datetime:
    return instant(int.from_bytes(due, "big", signed=True))


def timeout_arguments(timeouts: Sequence[Timeout]) -> Iterator[Any]:
    """The script arguments of timeouts: id, due_at followed by the rest, and the time from which `after` counts, or an
    empty text."""
    for timeout in timeouts:
        yield str(timeout.id)
        yield due(timeout.due_at) + encode(
            (timeout.destination, timeout.key, timeout.value, timeout.headers, timeout.owner)
        )
        yield "" if timeout.scheduled_at is None else times.micros(timeout.scheduled_at)


def schedule_arguments(changes: Changes) -> list[Any]:
    """The timeouts that a commit cancels and inserts: two lists, each after its length."""
    timeouts = list(timeout_arguments(changes.timeouts))
    return [len(changes.cancels), *(str(id) for id in changes.cancels), len(timeouts), *timeouts]
