"""The outbox in Redis. A message gets its number when it is inserted; scripts run in the order of their commits."""

import threading
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any

import msgspec

from sluicegate.connectors.outboxes import (
    ANY_LANE,
    STATES,
    check_claim,
    check_lanes,
    check_states,
    lane_lost,
    outcomes_of,
    space_of,
)
from sluicegate.connectors.redis import scripts_care
from sluicegate.connectors.redis import scripts_outbox as scripts
from sluicegate.connectors.redis.addresses import REPLY_SECONDS, RedisServer, clustered
from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.redis.leased import instant, outbox_arguments, script_runner
from sluicegate.connectors.redis.scripts_leased import PREFIX, prefix_of
from sluicegate.connectors.sessions import RedisSession, joined
from sluicegate.connectors.times import length
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.lanes import LANES
from sluicegate.streams.contracts.leased import LANE_LEASE
from sluicegate.streams.contracts.leased_values import positive
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage
from sluicegate.streams.contracts.options import OutboxOptions
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import ConfigurationError, PersistenceError

_PAGE = 1000
_PAUSES = 31  # the back-off of OutboxOptions does not grow beyond


class Packed(msgspec.Struct, array_like=True, gc=False):
    """A message as it is stored (`outbox_arguments`)."""

    id: str
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    lane_key: bytes | None


class StoredRow(msgspec.Struct, array_like=True, gc=False):
    """A row as the scripts store it: hash of the message's key, microseconds since 1970, place in the order of all
    rows."""

    key_hash: int
    created: int
    place: int
    message: Packed


_rows = msgspec.msgpack.Decoder(list[StoredRow]).decode
_stored = msgspec.msgpack.Decoder(StoredRow).decode
_failed = msgspec.msgpack.Decoder(tuple[int, int, str]).decode
_history = msgspec.msgpack.Decoder(list[tuple[int, str, str]]).decode


class RedisOutbox:
    """The messages of `app`. Any thread may call; each thread that waits has its own
    subscription."""

    def __init__(self, server: RedisServer, options: OutboxOptions, app: str) -> None:
        self._server, self._options = server, options
        self._run, self._prefix, self._space = script_runner(server, app), prefix_of(app), space_of(app)
        self._keys = self._prefix + "outbox:"
        self._pauses = [length(options.pause(number)) for number in range(1, _PAUSES + 1)]
        self._pause = length(options.backoff_most)
        self._waiting = threading.local()

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        arguments = list(outbox_arguments(messages))
        if not joined(session, RedisSession, require_transaction):
            if messages:
                self._run(scripts.ADD, *arguments)
        elif clustered(self._server()) and not session.key("").startswith(PREFIX):
            raise ConfigurationError(
                "outbox.add: in a Redis cluster the outbox and the partition lie on different servers, and no "
                "transaction spans both: return the messages from the handler instead, or use store.transaction()"
            )
        elif messages:
            session.pipeline.execute_command("EVAL", scripts.ADD, 2, PREFIX, self._prefix, *arguments)

    def lanes(self) -> int:
        with translated():
            return int(self._server().get(self._keys + "lanes") or LANES)

    def lane_numbers(self) -> Sequence[int]:
        return self._space.numbers(self.lanes())

    def set_lanes(self, count: int) -> None:
        check_lanes(count, 0)
        check_lanes(count, self._run(scripts.SET_LANES, count))

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        place = lane - self._space.base
        check_claim(place, place + 1 if place >= 0 else self.lanes(), token, limit)
        answer = self._run(scripts.CLAIM, place, token, limit, after, length(positive(lease)), self._pause)
        if isinstance(answer, int):
            check_claim(place, answer, token, limit)
        return None if answer is None else _batch(lane, token, answer)

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        token = uuid.uuid4().hex
        check_claim(0, 1, token, limit)
        arguments = token, limit, length(positive(lease)), self._pause
        return _batch(ANY_LANE, token, self._run(scripts.CLAIM_ANY, *arguments))

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        if not (self._mark_all(batch, outcomes) or self._mark(batch, outcomes_of(batch, outcomes))):
            raise lane_lost(batch.lane)

    def _place(self, batch: LaneBatch) -> int:
        """The script's number of the lane, which counts from 0 in each app."""
        return ANY_LANE if batch.lane == ANY_LANE else batch.lane - self._space.base

    def _mark_all(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> bool:
        """Marks all rows of a lane's batch as sent, without sending their ids. Returns whether that was possible."""
        if batch.lane == ANY_LANE or not batch.rows or not _all_sent(batch, outcomes):
            return False
        ends = batch.rows[0].number, batch.rows[-1].number
        return bool(self._run(scripts.MARK_ALL, self._place(batch), batch.token, *ends, len(batch.rows)) == 1)

    def _mark(self, batch: LaneBatch, outcomes: Sequence[Outcome]) -> bool:
        sent = [outcome.id for outcome in outcomes if outcome.kind == "dispatched"]
        failed = [outcome for outcome in outcomes if outcome.kind != "dispatched"]
        tried = {row.id: row.attempts for row in batch.rows} if failed else {}
        others = [
            part for outcome in failed for part in (outcome.id, outcome.kind, outcome.error, tried.get(outcome.id, 0))
        ]
        last = batch.rows[-1].number if batch.rows else 0
        counts = (last, self._options.attempts, len(self._pauses), *self._pauses, len(sent))
        return bool(self._run(scripts.MARK, self._place(batch), batch.token, *counts, *sent, *others))

    def release(self, batch: LaneBatch) -> None:
        self._run(scripts.RELEASE, self._place(batch), batch.token, *(row.id for row in batch.rows if batch.lane < 0))

    def wait(self, seconds: float) -> bool:
        """Returns True also for messages that were added since this thread's last call."""
        try:
            with translated():
                if not hasattr(self._waiting, "subscription"):
                    self._waiting.subscription = self._server().pubsub(ignore_subscribe_messages=True)
                    self._waiting.subscription.subscribe(self._keys + "added")
                    self._waiting.subscription.get_message(timeout=REPLY_SECONDS)  # the server's confirmation
                if self._waiting.subscription.get_message(timeout=seconds) is None:
                    return False
                while self._waiting.subscription.get_message(timeout=0):
                    pass
                return True
        except BaseException as error:
            self._waiting.__dict__.pop("subscription", None)
            if isinstance(error, TypeError | AttributeError):  # the driver's errors for a socket that `close` removed
                raise PersistenceError(
                    "redis: the store was closed, or its connection, while this thread waited"
                ) from error
            raise

    def pending_age(self) -> timedelta | None:
        age = self._run(scripts_care.OLDEST)
        return None if age is None else timedelta(microseconds=age)

    def count(self, state: str = "pending") -> int:
        check_states([state])
        if state == "pending":
            return int(self._run(scripts_care.PENDING))
        with translated():
            return int(self._server().zcard(self._keys + state))

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        return int(self._run(scripts_care.SWEEP, length(older_than), limit))

    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        """For more than `limit` dispatched messages, it returns the ones that were sent first."""
        states = STATES if state is None else (state,)
        check_states(states)
        lanes = self.lanes()
        rows: list[tuple[int, StoredMessage]] = []
        for kind in states:
            for where in (f"lane:{lane}" for lane in range(lanes)) if kind == "pending" else (kind,):
                rows += self._matches(kind, where, lanes, topic, limit)
        return [row for _, row in sorted(rows, key=lambda entry: entry[0])[:limit]]

    def _matches(
        self, state: str, where: str, lanes: int, topic: str | None, limit: int
    ) -> list[tuple[int, StoredMessage]]:
        """The matching rows, each with its place in the order of all rows."""
        matches: list[tuple[int, StoredMessage]] = []
        first, is_last = 0, False
        while len(matches) < limit and not is_last:
            scores, stored, failed = self._run(scripts_care.FIND, where, first, _PAGE)
            with translated():
                page = [_stored_message(state, lanes, *parts) for parts in zip(scores, stored, failed, strict=True)]
            matches += (row for row in page if topic in (None, row[1].message.topic))
            first += _PAGE
            is_last = len(scores) < _PAGE
        return matches[:limit]

    def get(self, id: str) -> StoredMessage | None:
        state, sent, stored, failed, _ = self._run(scripts_care.GET, id)
        with translated():
            return _stored_message(str(state, "ascii"), self.lanes(), sent, stored, failed)[1] if stored else None

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        state, sent, _, _, history = self._run(scripts_care.GET, id)
        with translated():
            tried = _history(history) if history else []
        if state == b"dispatched":
            tried.append((int(float(sent)), "success", ""))
        return tuple(
            Attempt(number, instant(at), outcome, error) for number, (at, outcome, error) in enumerate(tried, 1)
        )

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        return int(self._run(scripts_care.REQUEUE, *(("all",) if ids is None else ("some", *ids))))

    def drop(self, ids: Sequence[str]) -> int:
        return int(self._run(scripts_care.DROP, *ids)) if ids else 0


def _all_sent(batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> bool:
    if outcomes is None:
        return True
    if len(outcomes) != len(batch.rows) or any(outcome.kind != "dispatched" for outcome in outcomes):
        return False
    return {outcome.id for outcome in outcomes} == {row.id for row in batch.rows}


def _batch(lane: int, token: str, answer: Sequence[Any]) -> LaneBatch:
    ends, blocked, numbers, attempts, packed = answer
    with translated():
        stored = _rows(packed)
        moments = {created: instant(created) for created in {message.created for message in stored}}
        if len(numbers) == 1:
            numbers = range(numbers[0], numbers[0] + len(stored))
        numbered = zip(numbers, stored, attempts or repeat(0, len(stored)), strict=True)
        rows = [_lane_row(number, row.message, tried, moments[row.created]) for number, row, tried in numbered]
    return LaneBatch(lane, token, instant(ends), rows, instant(blocked) if blocked else None)


def _lane_row(number: int, it: Packed, attempts: int, created_at: datetime) -> LaneRow:
    return LaneRow(number, it.id, it.topic, it.key, it.value, it.headers, it.lane_key, attempts, created_at)


def _stored_message(
    state: str, lanes: int, score: bytes, stored: bytes, failed: bytes | None
) -> tuple[int, StoredMessage]:
    row = _stored(stored)
    it = row.message
    message = OutboxMessage(it.topic, it.key, it.value, it.headers, it.id, it.lane_key)
    attempts, again, reason = _failed(failed) if failed else (0, 0, "")
    sent = instant(float(score)) if state == "dispatched" else None
    waits = instant(again) if state == "pending" and again else None
    lane = row.key_hash % lanes
    return row.place, StoredMessage(message, state, lane, attempts, instant(row.created), sent, waits, reason)
