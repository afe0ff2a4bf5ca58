"""The timeout store in Redis."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from sluicegate.connectors import scheduling
from sluicegate.connectors.redis import scripts_timeouts as scripts
from sluicegate.connectors.redis.addresses import RedisServer
from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.redis.leased import due, instant, moment, outbox_arguments, script_runner, timeout_arguments
from sluicegate.connectors.redis.scripts_leased import prefix_of
from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import emitted
from sluicegate.streams.contracts.options import TimeoutOptions
from sluicegate.streams.contracts.record import Header

_PAGE = 1000

_rest = msgspec.msgpack.Decoder(tuple[str, bytes | None, bytes | None, list[Header], str | None]).decode


class RedisTimeouts:
    """The timeouts of `app`."""

    def __init__(self, server: RedisServer, options: TimeoutOptions, app: str) -> None:
        self._server, self._options = server, options
        self._run = script_runner(server, app)
        self._payloads, self._scheduled = (f"{prefix_of(app)}timeouts:{name}" for name in ("payloads", "scheduled"))

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        most = scheduling.check_size(self._options.batch_size if batch_size is None else batch_size)
        owner = uuid.uuid4().hex
        ids, payloads, scheduled, ends, following = self._run(scripts.BATCH, owner, most, length(self._options.lease))
        with translated():
            timeouts = list(map(_timeout, ids, payloads, scheduled))
        return TimeoutBatch(
            timeouts, owner, instant(ends) if timeouts else None, None if following is None else moment(following)
        )

    def remove(self, id: UUID, owner: str | None = None) -> None:
        self._run_held(scripts.REMOVE, id, owner)

    def release(self, id: UUID, owner: str | None = None) -> None:
        self._run_held(scripts.RELEASE, id, owner)

    def _run_held(self, script: str, id: UUID, owner: str | None) -> None:
        """Runs a script of one timeout. Raises ConcurrencyError when the owner has no lock on it."""
        if not self._run(script, str(id), *(() if owner is None else (owner,))):
            raise scheduling.lost(id)

    def emit(self, batch: TimeoutBatch) -> int:
        if not batch:
            return 0
        messages = outbox_arguments([emitted(row) for row in batch])
        following = list(timeout_arguments(scheduling.recurring(batch, self._options)))
        counts = len(batch), len(following)
        return int(
            self._run(scripts.EMIT, batch.owner, *counts, *(str(row.id) for row in batch), *following, *messages)
        )

    def reap_stale_leases(self) -> int:
        return int(self._run(scripts.REAP))

    def next_due(self) -> datetime | None:
        soonest = self._run(scripts.NEXT)
        return None if soonest is None else moment(soonest)

    def insert(self, *timeouts: Timeout) -> None:
        if timeouts and not self._run(scripts.INSERT, *timeout_arguments(timeouts)):
            raise scheduling.id_exists(timeouts)

    def cancel(self, id: UUID) -> bool:
        return bool(self._run(scripts.CANCEL, str(id)))

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        return bool(self._run(scripts.MOVE, str(id), due(scheduling.check_zone(due_at))))

    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        """Reads all timeouts, a thousand at a time. A timeout that is inserted or removed meanwhile may or may not be
        among them."""

        def fits(row: Timeout) -> bool:
            return destination in (None, row.destination) and owner in (None, row.owner) and key in (None, row.key)

        with translated():
            stored: list[tuple[bytes, bytes]] = list(
                dict(self._server().hscan_iter(self._payloads, count=_PAGE)).items()
            )
            known: list[Timeout] = []
            for first in range(0, len(stored), _PAGE):
                page = stored[first : first + _PAGE]
                scheduled = self._server().zmscore(self._scheduled, [id for id, _ in page])
                known += (_timeout(*parts, at) for parts, at in zip(page, scheduled, strict=True))
        return sorted(filter(fits, known), key=lambda row: (row.due_at, row.id))[:limit]

    def count(self) -> int:
        with translated():
            return int(self._server().hlen(self._payloads))


def _timeout(id: bytes, payload: bytes, scheduled: float | bytes | None) -> Timeout:
    destination, key, value, headers, owner = _rest(payload[8:])
    due_at = moment(payload[:8])
    after = None if scheduled is None else due_at - instant(int(float(scheduled)))
    return Timeout(UUID(str(id, "ascii")), destination, due_at, key, value, headers, owner, after)
