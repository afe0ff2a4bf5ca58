"""The store in memory. Each call holds one lock and makes all checks before any change."""

import threading
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec

from sluicegate.connectors.apps import outbox_of, timeouts_of
from sluicegate.connectors.commits import check, commit_each, dropped, next_claim, remaining_mark
from sluicegate.connectors.lookups import by_key, name_of
from sluicegate.connectors.memory.buffer import MemoryBuffer
from sluicegate.connectors.memory.buffered import Buffered
from sluicegate.connectors.memory.cold import ColdRows
from sluicegate.connectors.memory.outbox import MemoryOutbox
from sluicegate.connectors.memory.timeouts import MemoryTimeouts
from sluicegate.connectors.memory.values import Staged
from sluicegate.connectors.sessions import MemorySession
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.options import STANDARD, LeasedOptions
from sluicegate.streams.contracts.stores import LookupKey, RowFields
from sluicegate.streams.contracts.values import (
    Changes,
    Claim,
    ColdGroup,
    DeadRow,
    Level,
    OutboxRow,
    Partition,
    PartitionView,
)
from sluicegate.streams.errors import Fenced, SluicegateError


@dataclass(slots=True)
class PartitionRow:
    claim: Claim
    entries: dict[int, bytes] = field(default_factory=dict)
    unsent: dict[int, OutboxRow] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    dead: dict[int, tuple[OutboxRow, DeadRow]] = field(default_factory=dict)
    cold: ColdRows = field(default_factory=ColdRows)


class MemoryStore:
    """All partitions of one process; any thread may call. `clock` returns seconds since 1970."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        new_name: Callable[[], str] = lambda: uuid.uuid4().hex,
        options: LeasedOptions = STANDARD,
    ) -> None:
        self.incarnation = new_name()
        self._clock = clock
        self._lock = threading.RLock()
        self._values: dict[str, Any] = {}
        self._rows: dict[Partition, PartitionRow] = {}
        self._outboxes: dict[str, MemoryOutbox] = {}
        self._timeouts: dict[str, MemoryTimeouts] = {}
        self._buffers: dict[str, Buffered] = {}
        self._open(options)

    def of(self, options: LeasedOptions) -> "MemoryStore":
        """The same data, with other options."""
        store = copy(self)
        store._open(options)
        return store

    def _open(self, options: LeasedOptions) -> None:
        self._app = options.app
        with self._lock:
            for app in ("", options.app):
                if app not in self._outboxes:
                    outbox = self._outboxes[app] = MemoryOutbox(self._lock, self._clock, options.outbox, app)
                    self._timeouts[app] = MemoryTimeouts(self._lock, self._clock, options.timeouts, outbox.write)
        self.outbox: Any = outbox_of(options.app, self._outboxes.__getitem__)
        self.timeouts: Any = timeouts_of(options.app, self._timeouts.__getitem__)
        write = self._outboxes[options.app].write
        self.buffer = MemoryBuffer(self._lock, self._clock, options.types, write, names=self._buffers)

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        with self._lock:
            row = self._rows.get(partition)
            if row is None:
                row = self._rows[partition] = PartitionRow(_unclaimed(partition, self.incarnation))
            previous = row.claim.token if row.claim.owner else ""
            row.claim = msgspec.structs.replace(row.claim, token=token, member=member, store_time=self._clock())
            return msgspec.structs.replace(row.claim, previous=previous)

    def restore(self, claim: Claim) -> Iterator[bytes]:
        with self._lock:
            row = self._rows.get(claim.partition)
            entries = row.entries if row else {}
            return iter([entries[number] for number in range(claim.first, claim.last + 1) if number in entries])

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        check(claim, changes)
        with self._lock:
            return self._write(self._claimed_row(claim), claim, changes)

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        with self._lock:
            self._claimed_row(claim)
            values = Staged(self._values)
            changes = work(MemorySession(values))
            check(claim, changes)
            after = self._write(self._claimed_row(claim), claim, changes)
            self._apply(values)
            return after

    def look_up(self, session: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        wanted = {name_of(key) for key in keys}
        rows = session.values.get(lookup.source, {})  # the lookup's table: a mapping of keys to rows
        found_rows = ((key, row) for key, row in rows.items() if name_of(key) in wanted)
        return by_key(lookup, keys, [(key, [row.get(name) for name in lookup.fields]) for key, row in found_rows])

    @contextmanager
    def transaction(self) -> Iterator[MemorySession]:
        with self._lock:
            values = Staged(self._values)
            yield MemorySession(values)
            self._apply(values)

    def _apply(self, values: Staged) -> None:
        values.apply()
        self._outboxes[self._app].write(values.messages)

    def _claimed_row(self, claim: Claim) -> PartitionRow:
        row = self._rows.get(claim.partition)
        if row is None or not _holds(row.claim, claim):
            raise Fenced(f"{'/'.join(map(str, claim.partition))}: a newer claim or commit exists")
        return row

    def _write(self, row: PartitionRow, claim: Claim, changes: Changes) -> Claim:
        after = next_claim(claim, changes, self._clock())
        _settle(row, changes)
        _append(row, changes, claim, after)
        if changes.timeouts or changes.cancels:
            # an id that exists as a timeout without an app keeps that timeout, or is cancelled there
            own, common = self._timeouts[self._app], self._timeouts[""]
            common.apply(changes.cancels, ())
            own.apply(changes.cancels, [timeout for timeout in changes.timeouts if not common.has(timeout.id)])
        row.claim = msgspec.structs.replace(after, member=row.claim.member, previous="")
        return after

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        return commit_each(self.commit, commits)

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        with self._lock:
            if (row := self._rows.get(partition)) is None:
                return []
            start = bisect_right(row.order, after)
            numbers = (n for n in islice(row.order, start, None) if n in row.unsent)
            return [row.unsent[n] for n in islice(numbers, limit)]

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        with self._lock:
            row = self._rows.get(partition)
            return [row.dead[number] for number in sorted(row.dead)[:limit]] if row else []

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        with self._lock:
            row = self._rows.get(partition)
            return [row.cold.groups[key] for key in keys if key in row.cold.groups] if row else []

    def due(self, partition: Partition, until: float, limit: int) -> Sequence[ColdGroup]:
        with self._lock:
            row = self._rows.get(partition)
            return row.cold.due(until, limit) if row else []

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> Sequence[ColdGroup]:
        with self._lock:
            row = self._rows.get(partition)
            return row.cold.page(after, limit) if row else []

    def before(self, partition: Partition, key: bytes, limit: int) -> Sequence[ColdGroup]:
        with self._lock:
            row = self._rows.get(partition)
            return row.cold.before(key, limit) if row else []

    def clear_crash_mark(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        with self._lock:
            row = self._rows.get(partition)
            if row is None:
                return
            rest = remaining_mark(row.claim.trying, processes)
            if rest != row.claim.trying or row.claim.token == token:
                row.claim = msgspec.structs.replace(row.claim, trying=rest, token="")

    def forget(self, claim: Claim) -> None:
        with self._lock:
            self._claimed_row(claim)
            del self._rows[claim.partition]

    def read(self, partition: Partition) -> PartitionView | None:
        with self._lock:
            if (row := self._rows.get(partition)) is None:
                return None
            claim = msgspec.structs.replace(row.claim, store_time=self._clock())
            return PartitionView(claim, list(row.entries.values()), len(row.unsent), len(row.dead))

    @property
    def values(self) -> dict[str, Any]:
        """A copy of what handlers wrote through their sessions."""
        with self._lock:
            return deepcopy(self._values)

    def partitions(self, app: str) -> Sequence[Partition]:
        with self._lock:
            return sorted(p for p in self._rows if p.app == app)

    def apps(self) -> Sequence[str]:
        with self._lock:
            return sorted({partition.app for partition in self._rows})

    def level(self) -> Level:
        return Level("volatile", ("memory:// lives in this process and ends with it",))

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        return []

    def close(self) -> None:
        """The data stay. The next `open_store` of the same URL in this process finds them."""


_shared: dict[str, dict[str, MemoryStore]] = {}
_sharing = threading.Lock()


def shared(name: str, options: LeasedOptions = STANDARD) -> MemoryStore:
    """The one store of this name in this process. For each app, the options of the first call count."""
    with _sharing:
        opened = _shared.setdefault(name, {})
        if options.app not in opened:
            other = next(iter(opened.values()), None)
            opened[options.app] = MemoryStore(options=options) if other is None else other.of(options)
        return opened[options.app]


def _unclaimed(partition: Partition, incarnation: str) -> Claim:
    return Claim(
        partition,
        token="",
        version=0,
        offset=-1,
        epoch=-1,
        number=0,
        first=1,
        last=0,
        source=None,
        trying=None,
        incarnation=incarnation,
        member="",
        store_time=0.0,
    )


def _holds(current: Claim, claim: Claim) -> bool:
    return current.token == claim.token and current.version == claim.version


def _settle(row: PartitionRow, changes: Changes) -> None:
    for dead in changes.dead:
        if (lost := row.unsent.pop(dead.number, None)) is not None:
            row.dead[dead.number] = (lost, dead)
    for number in changes.dispatched:
        row.unsent.pop(number, None)
    for number in changes.revived:
        row.dead.pop(number, None)
    if len(row.order) > 2 * len(row.unsent) + 1000:
        row.order = list(row.unsent)


def _append(row: PartitionRow, changes: Changes, claim: Claim, after: Claim) -> None:
    for number, entry in enumerate(changes.entries, claim.last + 1):
        row.entries[number] = bytes(entry)
    for number in range(claim.first, after.first):
        row.entries.pop(number, None)
    row.cold.apply(changes.put_cold, dropped(changes))
    for unsent in changes.outbox:
        row.unsent[unsent.number] = unsent
        row.order.append(unsent.number)
