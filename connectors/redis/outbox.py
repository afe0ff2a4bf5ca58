"""The outbox in Redis: a message is numbered when it is inserted, in the order of the scripts, which is the order of
the commits."""

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any

import msgspec

from sluicegate.connectors.outboxes import ANY_LANE, STATES, check_claim, check_lanes, check_states, outcomes_of
from sluicegate.connectors.redis import scripts_care
from sluicegate.connectors.redis import scripts_outbox as scripts
from sluicegate.connectors.redis.addresses import REPLY_SECONDS, RedisServer, clustered
from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.redis.leased import instant, outbox_arguments, step
from sluicegate.connectors.redis.scripts_leased import PREFIX
from sluicegate.connectors.sessions import RedisSession, joined
from sluicegate.connectors.times import length
from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.contracts.lanes import LANES
from sluicegate.streams.contracts.leased import LANE_LEASE
from sluicegate.streams.contracts.leased_values import positive
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage
from sluicegate.streams.contracts.options import OutboxOptions
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.errors import ConcurrencyError, ConfigurationError, PersistenceError

_KEYS = PREFIX + "outbox:"
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
    """A row as the scripts store it: `hashed` of its key, `created` in microseconds since 1970, its place in the order
    of all rows."""

    hashed: int
    created: int
    place: int
    message: Packed


_rows = msgspec.msgpack.Decoder(list[StoredRow]).decode
_stored = msgspec.msgpack.Decoder(StoredRow).decode
_failed = msgspec.msgpack.Decoder(tuple[int, int, str]).decode
_history = msgspec.msgpack.Decoder(list[tuple[int, str, str]]).decode


class RedisOutbox:
    """`new_token` gives random ones. Any thread may call; each that waits has a subscription of its own."""

    def __init__(self, server: RedisServer, options: OutboxOptions, new_token: Callable[[], str]) -> None:
        self._server, self._options, self._new_token = server, options, new_token
        self._add, self._set_lanes = step(server, scripts.ADD), step(server, scripts.SET_LANES)
        self._claim, self._claim_any = step(server, scripts.CLAIM), step(server, scripts.CLAIM_ANY)
        self._mark, self._mark_all = step(server, scripts.MARK), step(server, scripts.MARK_ALL)
        self._release = step(server, scripts.RELEASE)
        self._pending = step(server, scripts_care.PENDING)
        self._oldest, self._sweep = step(server, scripts_care.OLDEST), step(server, scripts_care.SWEEP)
        self._requeue, self._drop = step(server, scripts_care.REQUEUE), step(server, scripts_care.DROP)
        self._find, self._attempts = step(server, scripts_care.FIND), step(server, scripts_care.ATTEMPTS)
        self._get = step(server, scripts_care.GET)
        self._pauses = [length(options.pause(number)) for number in range(1, _PAUSES + 1)]
        self._told = threading.local()

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        arguments = list(outbox_arguments(messages))
        if not joined(session, RedisSession, require_transaction):
            if messages:
                self._add(arguments)
        elif clustered(self._server()) and not session.key("").startswith(PREFIX):
            raise ConfigurationError(
                "outbox.add: in a Redis cluster the outbox and the partition lie on different servers, which no "
                "transaction spans: "
                "return the messages from the handler instead, or use store.transaction()"
            )
        elif messages:
            session.pipeline.execute_command("EVAL", scripts.ADD, 1, PREFIX, *arguments)

    def lanes(self) -> int:
        with translated():
            return int(self._server().get(_KEYS + "lanes") or LANES)

    def set_lanes(self, count: int) -> None:
        check_lanes(count, 0)
        check_lanes(count, self._set_lanes([count]))

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        check_claim(lane, lane + 1 if lane >= 0 else self.lanes(), token, limit)
        answer = self._claim([lane, token, limit, after, length(positive(lease))])
        if isinstance(answer, int):
            check_claim(lane, answer, token, limit)
        return None if answer is None else _batch(lane, token, answer)

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        token = self._new_token()
        check_claim(0, 1, token, limit)
        return _batch(ANY_LANE, token, self._claim_any([token, limit, length(positive(lease))]))

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        if not (self._marked_all(batch, outcomes) or self._marked(batch, outcomes_of(batch, outcomes))):
            raise ConcurrencyError(f"outbox.mark: lane {batch.lane} is another's now; nothing was marked")

    def _marked_all(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> bool:
        """The usual case, for which nothing of single rows is sent; False: it is not, or the lane is another's."""
        if batch.lane == ANY_LANE or not batch.rows or not _all_sent(batch, outcomes):
            return False
        ends = batch.rows[0].number, batch.rows[-1].number
        return bool(self._mark_all([batch.lane, batch.token, *ends, len(batch.rows)]) == 1)

    def _marked(self, batch: LaneBatch, outcomes: Sequence[Outcome]) -> bool:
        sent = [each.id for each in outcomes if each.kind == "dispatched"]
        failed = [each for each in outcomes if each.kind != "dispatched"]
        tried = {row.id: row.attempts for row in batch.rows} if failed else {}
        others = [part for each in failed for part in (each.id, each.kind, each.error, tried.get(each.id, 0))]
        last = batch.rows[-1].number if batch.rows else 0
        counts = (last, self._options.attempts, len(self._pauses), *self._pauses, len(sent))
        return bool(self._mark([batch.lane, batch.token, *counts, *sent, *others]))

    def release(self, batch: LaneBatch) -> None:
        self._release([batch.lane, batch.token, *(row.id for row in batch.rows if batch.lane < 0)])

    def wait(self, seconds: float) -> bool:
        """What was added since this thread's last call is told, too."""
        try:
            with translated():
                if not hasattr(self._told, "subscription"):
                    self._told.subscription = self._server().pubsub(ignore_subscribe_messages=True)
                    self._told.subscription.subscribe(_KEYS + "added")
                    self._told.subscription.get_message(timeout=REPLY_SECONDS)  # that it is subscribed
                return self._is_told(self._told.subscription, seconds)
        except (TypeError, AttributeError) as error:  # what the driver says of a socket that `close` took away
            self._told.__dict__.pop("subscription", None)
            raise PersistenceError(
                "redis: the store was closed, or its connection, while this thread waited"
            ) from error
        except BaseException:
            self._told.__dict__.pop("subscription", None)
            raise

    def _is_told(self, subscription: Any, seconds: float) -> bool:
        told = subscription.get_message(timeout=seconds)
        if told is None:
            return False
        while subscription.get_message(timeout=0):
            pass
        return True

    def pending_age(self) -> timedelta | None:
        age = self._oldest([])
        return None if age is None else timedelta(microseconds=age)

    def count(self, state: str = "pending") -> int:
        check_states([state])
        if state == "pending":
            return int(self._pending([]))
        with translated():
            return int(self._server().zcard(_KEYS + state))

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        return int(self._sweep([length(older_than), limit]))

    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        """Of the dispatched ones more than `limit` those that were sent first."""
        states = STATES if state is None else (state,)
        check_states(states)
        lanes = self.lanes()
        found: list[tuple[int, StoredMessage]] = []
        for each in states:
            for where in (f"lane:{lane}" for lane in range(lanes)) if each == "pending" else (each,):
                found += self._found(each, where, lanes, topic, limit)
        return [row for _, row in sorted(found, key=lambda each: each[0])[:limit]]

    def _found(
        self, state: str, where: str, lanes: int, topic: str | None, limit: int
    ) -> list[tuple[int, StoredMessage]]:
        """With their places in the order of all rows."""
        found: list[tuple[int, StoredMessage]] = []
        for page in self._paged(state, where, lanes):
            found += (each for each in page if topic in (None, each[1].message.topic))
            if len(found) >= limit:
                break
        return found[:limit]

    def _paged(self, state: str, where: str, lanes: int) -> Iterator[list[tuple[int, StoredMessage]]]:
        first = 0
        while True:
            scores, stored, failed = self._find([where, first, _PAGE])
            with translated():
                yield [_seen(state, lanes, *each) for each in zip(scores, stored, failed, strict=True)]
            first += _PAGE
            if len(scores) < _PAGE:
                return

    def get(self, id: str) -> StoredMessage | None:
        state, sent, stored, failed = self._get([id])
        with translated():
            return _seen(str(state, "ascii"), self.lanes(), sent, stored, failed)[1] if stored else None

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        history, sent = self._attempts([id])
        with translated():
            said = list(_history(history)) if history else []
        if sent is not None:
            said.append((int(float(sent)), "success", ""))
        return tuple(
            Attempt(number, instant(at), outcome, error) for number, (at, outcome, error) in enumerate(said, 1)
        )

    def requeue(self, ids: Sequence[str] | None = None) -> int:
        return int(self._requeue(["all"] if ids is None else ["some", *ids]))

    def drop(self, ids: Sequence[str]) -> int:
        return int(self._drop(ids)) if ids else 0


def _all_sent(batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> bool:
    if outcomes is None:
        return True
    if len(outcomes) != len(batch.rows) or any(each.kind != "dispatched" for each in outcomes):
        return False
    return {each.id for each in outcomes} == {row.id for row in batch.rows}


def _message(packed: Packed) -> OutboxMessage:
    return OutboxMessage(packed.topic, packed.key, packed.value, packed.headers, packed.id, packed.lane_key)


def _batch(lane: int, token: str, answer: Sequence[Any]) -> LaneBatch:
    ends, blocked, numbers, attempts, packed = answer
    with translated():
        stored = _rows(packed)
        moments = {created: instant(created) for created in {each.created for each in stored}}
        if len(numbers) == 1:
            numbers = range(numbers[0], numbers[0] + len(stored))
        found = zip(numbers, stored, attempts or repeat(0, len(stored)), strict=True)
        rows = [_lane_row(number, each.message, tried, moments[each.created]) for number, each, tried in found]
    return LaneBatch(lane, token, instant(ends), rows, instant(blocked) if blocked else None)


def _lane_row(number: int, it: Packed, attempts: int, created_at: datetime) -> LaneRow:
    return LaneRow(number, it.id, it.topic, it.key, it.value, it.headers, it.lane_key, attempts, created_at)


def _seen(state: str, lanes: int, score: bytes, stored: bytes, failed: bytes | None) -> tuple[int, StoredMessage]:
    it = _stored(stored)
    attempts, again, reason = _failed(failed) if failed else (0, 0, "")
    sent = instant(float(score)) if state == "dispatched" else None
    waits = instant(again) if state == "pending" and again else None
    return it.place, StoredMessage(
        _message(it.message), state, it.hashed % lanes, attempts, instant(it.created), sent, waits, reason
    )
