"""The store in Redis or Valkey. Each step is one script; all keys of a partition have one hash tag."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any

import msgspec

from sluicegate.connectors.apps import outbox_of, timeouts_of
from sluicegate.connectors.commits import check, commit_each, dropped, next_claim, runs
from sluicegate.connectors.redis import addresses, connection, lookups, scripts, unit
from sluicegate.connectors.redis.buffer import RedisBuffer
from sluicegate.connectors.redis.leased import schedule_arguments
from sluicegate.connectors.redis.outbox import RedisOutbox
from sluicegate.connectors.redis.scripts_leased import PREFIX, prefix_of
from sluicegate.connectors.redis.timeouts import RedisTimeouts
from sluicegate.connectors.sessions import RedisSession, unchanged
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.leased import OutboxStore, TimeoutStore
from sluicegate.streams.contracts.options import STANDARD, LeasedOptions
from sluicegate.streams.contracts.stores import LookupKey, RowFields
from sluicegate.streams.contracts.values import (
    Changes,
    Claim,
    ColdGroup,
    CrashMark,
    DeadRow,
    Level,
    OutboxRow,
    Partition,
    PartitionView,
    Source,
)
from sluicegate.streams.errors import ConfigurationError, Fenced, PersistenceError, SluicegateError, SystemNotReady

SCHEMA, INCARNATION = "sluicegate:{data}:schema", "sluicegate:{data}:incarnation"
APPS = "sluicegate:apps"
STEPS = ("name of the data and version of the keys",)
COUNTS = {"version": 0, "offset": -1, "epoch": -1, "number": 0, "first": 1, "last": 0}
"""Attributes of a claim that its row holds as numbers, with those of a new row."""
NEW_ROW: dict[str, Any] = COUNTS | {"source": "", "trying": ""}

_PAGE = 16

_encode = msgspec.msgpack.Encoder().encode
_row = msgspec.msgpack.Decoder(OutboxRow).decode
_dead = msgspec.msgpack.Decoder(tuple[str, int, OutboxRow]).decode
_cold = msgspec.msgpack.Decoder(tuple[float | None, bytes]).decode
_source = msgspec.msgpack.Decoder(Source).decode
_trying = msgspec.msgpack.Decoder(CrashMark).decode


class RedisStore:
    """The store at one address. Any thread may call. Times are the server's."""

    def __init__(self, url: str, options: LeasedOptions = STANDARD) -> None:
        self._options = options
        self._server = addresses.server(url)
        self._run = partial(connection.run_script, self._server)

    @property
    def incarnation(self) -> str:
        """Raises SystemNotReady before the first `migrate`."""
        with connection.translated():
            name = self._server().get(INCARNATION)
            if name is None:
                raise SystemNotReady("the store's data have no name yet: run `sluicegate migrate`")
            return str(name, "ascii")

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        with connection.translated(), self._server().pipeline(transaction=False) as pipeline:
            pipeline.set(INCARNATION, uuid.uuid4().hex, nx=True)
            pipeline.get(INCARNATION)
            pipeline.sadd(APPS, partition.app)
            pipeline.sadd(_index(partition.app), _member(partition))
            _, name, *_ = pipeline.execute()
        fields = [item for pair in NEW_ROW.items() for item in pair]
        stored, now, before = self._run(scripts.CLAIM, _keys(partition), [token, member, name, *fields])
        previous = str(before[0], "utf-8") if before[1] else ""
        return msgspec.structs.replace(_claim(partition, stored, now), previous=previous)

    def restore(self, claim: Claim) -> Iterator[bytes]:
        for first in range(claim.first, claim.last + 1, _PAGE):
            last = min(first + _PAGE - 1, claim.last)
            yield from self._run(scripts.ENTRIES, _keys(claim.partition), [first, last])

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        after, keys, arguments = self._prepared(claim, changes)
        return _committed(after, self._run(scripts.COMMIT, keys, arguments))

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        return unchanged(lambda: self._commit_with(claim, work))

    def _commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        keys = _keys(claim.partition)
        with unit.transaction(self._server, keys[0]) as pipe:
            fence = (claim.token, claim.version, claim.last - claim.first + 1)
            _check_answer(claim, unit.watched(pipe, keys, (scripts.CHECK, len(keys), *keys, *fence)))
            changes, queue = unit.worked(self._server, pipe, keys[0], work)
            after, keys, arguments = self._prepared(claim, changes)
            script = (scripts.COMMIT, len(keys), *keys, *arguments)
            return _committed(after, unit.executed(pipe, ("HSET", keys[0], "token", claim.token), queue, script))

    def look_up(self, session: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        return lookups.look_up(session, lookup, keys)

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        if addresses.clustered(self._server()):
            return commit_each(self.commit, commits)
        prepared = [self._prepared(claim, changes) for claim, changes in commits]
        calls = [(keys, arguments) for _, keys, arguments in prepared]
        answers = connection.run_together(self._server, scripts.COMMIT, calls)
        results: list[Claim | SluicegateError] = []
        for (after, _, _), answer in zip(prepared, answers, strict=True):
            try:
                results.append(_committed(after, answer))
            except SluicegateError as error:
                results.append(error)
        return results

    def _prepared(self, claim: Claim, changes: Changes) -> tuple[Claim, list[str], list[Any]]:
        """The claim after the commit, and the keys and arguments of the commit's script."""
        check(claim, changes)
        after = next_claim(claim, changes, claim.store_time)
        return after, self._keys(claim.partition, changes), _arguments(claim, after, changes)

    def _keys(self, partition: Partition, changes: Changes) -> list[str]:
        if not changes.timeouts and not changes.cancels:
            return _keys(partition)
        if addresses.clustered(self._server()):
            raise ConfigurationError(
                "timeouts cannot be part of a commit in a Redis cluster: they lie on another server than the "
                "partition, and no script spans both; use one server (or sentinels), or store.timeouts by itself"
            )
        return [*_keys(partition), prefix_of(self._options.app), PREFIX]

    def transaction(self) -> AbstractContextManager[RedisSession]:
        return unit.application(self._server, PREFIX)

    @cached_property
    def outbox(self) -> OutboxStore:
        make = partial(RedisOutbox, self._server, self._options.outbox)
        return outbox_of(self._options.app, make)

    @cached_property
    def timeouts(self) -> TimeoutStore:
        make = partial(RedisTimeouts, self._server, self._options.timeouts)
        return timeouts_of(self._options.app, make)

    @cached_property
    def buffer(self) -> RedisBuffer:
        return RedisBuffer(self._server, self._options.types, self._options.app)

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        with connection.translated():
            rows = self._server().zrangebyscore(_keys(partition)[2], f"({after}", "+inf", start=0, num=limit)
            return [_row(row) for row in rows]

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        with connection.translated():
            rows = self._server().zrangebyscore(_keys(partition)[3], "-inf", "+inf", start=0, num=limit)
            return [(row, DeadRow(row.number, reason, attempts)) for reason, attempts, row in map(_dead, rows)]

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        if not keys:
            return []
        with connection.translated():
            states = self._server().hmget(_keys(partition)[4], list(keys))
            return [_group(key, state) for key, state in zip(keys, states, strict=True) if state is not None]

    def due(self, partition: Partition, until: float, limit: int) -> Sequence[ColdGroup]:
        return self._cold_page(partition, "ZRANGEBYSCORE", 7, "-inf", repr(until), limit)

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> Sequence[ColdGroup]:
        first = b"-" if after is None else b"(" + after
        return self._cold_page(partition, "ZRANGEBYLEX", 6, first, b"+", limit)

    def before(self, partition: Partition, key: bytes, limit: int) -> Sequence[ColdGroup]:
        return self._cold_page(partition, "ZRANGEBYLEX", 6, b"-", b"(" + key, limit)

    def _cold_page(self, partition: Partition, *arguments: str | int | bytes) -> Sequence[ColdGroup]:
        keys, states = self._run(scripts.COLD_PAGE, _keys(partition), arguments)
        with connection.translated():
            return [_group(key, state) for key, state in zip(keys, states, strict=True)]

    def clear_crash_mark(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        self._run(scripts.CLEAR_CRASH_MARK, _keys(partition), [token, *processes])

    def forget(self, claim: Claim) -> None:
        _check_answer(claim, self._run(scripts.FORGET, _keys(claim.partition), [claim.token, claim.version]))
        with connection.translated():
            self._server().srem(_index(claim.partition.app), _member(claim.partition))

    def read(self, partition: Partition) -> PartitionView | None:
        stored, entries, unsent, dead, now = self._run(scripts.READ, _keys(partition), [])
        return PartitionView(_claim(partition, stored, now), entries, unsent, dead) if stored else None

    def partitions(self, app: str) -> Sequence[Partition]:
        with connection.translated():
            names = [str(member, "utf-8").split("/") for member in self._server().smembers(_index(app))]
            places = [Partition(app, agent, topic, int(number)) for agent, topic, number in names]
            return sorted(partition for partition in places if self._server().exists(_keys(partition)[0]))

    def apps(self) -> Sequence[str]:
        with connection.translated():
            names = [str(name, "utf-8") for name in self._server().smembers(APPS)]
            return sorted(name for name in names if self._server().exists(_index(name)))

    def level(self) -> Level:
        return connection.level(self._server)

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        if dry_run:
            with connection.translated():
                done = int(self._server().get(SCHEMA) or 0)
        else:
            done = self._run(scripts.MIGRATE, [SCHEMA, INCARNATION], [len(STEPS), uuid.uuid4().hex])
        if done > len(STEPS):
            raise SystemNotReady(
                f"the store's keys are at step {done}, this program knows {len(STEPS)}: use a newer one"
            )
        return list(STEPS[done:])

    def close(self) -> None:
        self._server.close()


def _keys(partition: Partition) -> list[str]:
    tag = f"sluicegate:{{{partition.app}/{_member(partition)}}}"
    names = ("claim", "log", "outbox", "dead", "cold", "cold-keys", "cold-due")
    return [f"{tag}:{name}" for name in names]


def _index(app: str) -> str:
    return f"sluicegate:partitions:{app}"


def _member(partition: Partition) -> str:
    return f"{partition.agent}/{partition.topic}/{partition.number}"


def _seconds(time: Sequence[bytes]) -> float:
    return int(time[0]) + int(time[1]) / 1e6


def _committed(after: Claim, answer: Any) -> Claim:
    if isinstance(answer, PersistenceError):
        raise answer
    _check_answer(after, answer)
    return msgspec.structs.replace(after, store_time=_seconds(answer[1]))


def _check_answer(claim: Claim, answer: Any) -> None:
    if answer[0] == b"fenced":
        raise Fenced(f"{_member(claim.partition)}: a newer claim or commit exists")
    if answer[0] == b"damaged":
        raise PersistenceError(f"redis: the keys of {_member(claim.partition)} are not what its claim row says")


def _claim(partition: Partition, stored: Sequence[bytes], now: Sequence[bytes]) -> Claim:
    with connection.translated():
        row = {str(name, "ascii"): value for name, value in zip(stored[::2], stored[1::2], strict=True)}
        counts: dict[str, Any] = {name: int(row[name]) for name in COUNTS}
        return Claim(
            partition,
            str(row["token"], "utf-8"),
            **counts,
            source=_source(row["source"]) if row["source"] else None,
            trying=_trying(row["trying"]) if row["trying"] else None,
            incarnation=str(row["incarnation"], "utf-8"),
            member=str(row["member"], "utf-8"),
            store_time=_seconds(now),
        )


def _arguments(claim: Claim, after: Claim, changes: Changes) -> list[Any]:
    fields: list[Any] = ["trying", b"" if changes.trying is None else _encode(changes.trying)]
    for name in COUNTS:
        fields += (name, getattr(after, name))
    if changes.source is not None:
        fields += ("source", _encode(changes.source))
    dead = [item for row in changes.dead for item in (row.number, _dead_head(row))]
    delivered, revived = (
        [number for run in runs(some) for number in run] for some in (changes.dispatched, changes.revived)
    )
    rows = [item for row in changes.outbox for item in (row.number, _encode(row))]
    arguments: list[Any] = [claim.token, claim.version, claim.last - claim.first + 1, after.first - claim.first]
    put = [item for group in changes.put_cold for item in _stored(group)]
    for part in (fields, dead, delivered, revived, changes.entries, rows, dropped(changes), put):
        arguments.append(len(part))
        arguments += part
    return arguments + schedule_arguments(changes)


def _stored(group: ColdGroup) -> tuple[bytes, str, bytes]:
    return group.key, "" if group.due is None else repr(group.due), _encode((group.due, group.state))


def _group(key: bytes, stored: bytes) -> ColdGroup:
    due, state = _cold(stored)
    return ColdGroup(key, due, state)


def _dead_head(row: DeadRow) -> bytes:
    """The beginning of a msgpack array of three: reason, attempts, outbox row. The script appends the row."""
    return b"\x93" + _encode(row.reason) + _encode(row.attempts)
