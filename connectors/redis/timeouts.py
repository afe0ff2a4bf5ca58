"""The timeout store in Redis."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from sluicegate.connectors import scheduling
from sluicegate.connectors.redis import scripts_timeouts as scripts
from sluicegate.connectors.redis.addresses import RedisServer
from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.redis.leased import (
    due,
    instant,
    moment,
    outbox_arguments,
    step,
    text,
    timeout,
    timeout_arguments,
)
from sluicegate.connectors.redis.scripts_leased import PREFIX
from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import emitted
from sluicegate.streams.contracts.options import TimeoutOptions
from sluicegate.streams.contracts.record import Header

_PAYLOADS = PREFIX + "timeouts:payloads"
_PAGE = 1000
_rest = msgspec.msgpack.Decoder(tuple[str, bytes | None, bytes | None, list[Header], str | None]).decode


class RedisTimeouts:
    """`new_token` gives random ones: the owners of batches."""

    def __init__(self, server: RedisServer, options: TimeoutOptions, new_token: Callable[[], str]) -> None:
        self._server, self._options, self._new_token = server, options, new_token
        self._insert, self._batch = step(server, scripts.INSERT), step(server, scripts.BATCH)
        self._remove, self._release = step(server, scripts.REMOVE), step(server, scripts.RELEASE)
        self._emit, self._reap = step(server, scripts.EMIT), step(server, scripts.REAP)
        self._next = step(server, scripts.NEXT)
        self._cancel, self._move = step(server, scripts.CANCEL), step(server, scripts.MOVE)

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        most = scheduling.check_size(self._options.batch_size if batch_size is None else batch_size)
        owner = self._new_token()
        ids, payloads, ends, following = self._batch([owner, most, length(self._options.lease)])
        with translated():
            found = [timeout(UUID(text(id)), payload, _rest) for id, payload in zip(ids, payloads, strict=True)]
        return TimeoutBatch(
            found, owner, instant(ends) if found else None, None if following is None else moment(following)
        )

    def remove(self, id: UUID, owner: str | None = None) -> None:
        if not self._remove(_held(id, owner)):
            raise scheduling.lost(id)

    def release(self, id: UUID, owner: str | None = None) -> None:
        if not self._release(_held(id, owner)):
            raise scheduling.lost(id)

    def emit(self, batch: TimeoutBatch) -> int:
        messages = outbox_arguments([emitted(each) for each in batch])
        return int(self._emit([batch.owner, len(batch), *(str(each.id) for each in batch), *messages])) if batch else 0

    def reap_stale_leases(self) -> int:
        return int(self._reap([]))

    def next_due(self) -> datetime | None:
        soonest = self._next([])
        return None if soonest is None else moment(soonest)

    def insert(self, *timeouts: Timeout) -> None:
        if timeouts and not self._insert(list(timeout_arguments(timeouts))):
            raise scheduling.there(timeouts)

    def cancel(self, id: UUID) -> bool:
        return bool(self._cancel([str(id)]))

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        return bool(self._move([str(id), due(scheduling.check_zone(due_at))]))

    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        """Looks at all of them, a thousand at a time: what is inserted or goes meanwhile may or may not be among
        them."""

        def fits(each: Timeout) -> bool:
            return destination in (None, each.destination) and owner in (None, each.owner) and key in (None, each.key)

        with translated():
            pages: Any = self._server().hscan_iter(_PAYLOADS, count=_PAGE)
            known = {id: timeout(UUID(text(id)), payload, _rest) for id, payload in pages}
        return sorted(filter(fits, known.values()), key=lambda each: (each.due_at, each.id))[:limit]

    def count(self) -> int:
        with translated():
            return int(self._server().hlen(_PAYLOADS))


def _held(id: UUID, owner: str | None) -> list[str]:
    return [str(id)] if owner is None else [str(id), owner]
