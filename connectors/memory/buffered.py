"""The rows of one buffer in memory. Callers hold the store's lock; times are microseconds since 1970."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, takewhile

from sluicegate.connectors import buffers
from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased_values import NO_RESULTS, EarlyPast, Entry, Gate, Types, batch_id


@dataclass(slots=True)
class BufferRow:
    id: int
    entry: Entry
    at: int
    keep: int
    token: str = ""
    leased_at: int = 0
    expires: int = 0
    batch: str = ""
    broken: bool = False

    def free(self, now: int) -> bool:
        return not self.batch and self.expires <= now


@dataclass(slots=True)
class StoredBatch:
    group: str
    reason: str
    rows: list[BufferRow]
    token: str = ""
    leased_at: int = 0
    expires: int = 0
    attempts: int = 0
    past: EarlyPast = NO_RESULTS


@dataclass(slots=True)
class OpenResults:
    """The early results of an open group: how many it had, the last row that they cover, when the next one is due
    (None: a row must come first), and the token of the worker that makes it."""

    count: int = 0
    covered: int = 0
    due_at: int | None = None
    token: str = ""


@dataclass(slots=True)
class Buffered:
    """`open` holds the rows of each group that are in no batch and that no batch returned as undecodable. `keep` is the
    longest time for which an insert asked to keep keys."""

    last: int = 0
    keep: int = 0
    rows: dict[int, BufferRow] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    removed: dict[str, int] = field(default_factory=dict)
    open: dict[str, dict[int, BufferRow]] = field(default_factory=dict)
    deadlines: dict[str, int] = field(default_factory=dict)
    batches: dict[str, StoredBatch] = field(default_factory=dict)
    early: dict[str, OpenResults] = field(default_factory=dict)
    positions: dict[tuple[str, int], int] = field(default_factory=dict)

    def knows(self, key: str, now: int) -> bool:
        return key in self.keys or self.removed.get(key, 0) > now

    def add(self, entry: Entry, now: int, keep: int) -> None:
        self.last += 1
        row = self.rows[self.last] = BufferRow(self.last, entry, now, keep)
        self.keys.add(entry.idempotency_key)
        self.removed.pop(entry.idempotency_key, None)
        self.open.setdefault(entry.group, {})[row.id] = row

    def drop(self, rows: Iterable[BufferRow], now: int) -> int:
        """Delete the rows, and keep their keys as long as their insert asked for. Returns how many."""
        dropped = list(rows)
        for row in dropped:
            del self.rows[row.id]
            self._close(row)
            if batch := self.batches.get(row.batch):
                batch.rows.remove(row)
                if not batch.rows:
                    del self.batches[row.batch]
            self.keys.discard(row.entry.idempotency_key)
            if row.keep:
                self.removed[row.entry.idempotency_key] = now + row.keep
        return len(dropped)

    def forget(self, now: int) -> None:
        """Delete the expired keys. They are in the order of their removal, so most calls look at one."""
        for key, _ in list(takewhile(lambda entry: entry[1] <= now, self.removed.items())):
            del self.removed[key]

    def set_keys_back(self, now: int) -> None:
        """A key that is kept for longer than any insert asked was removed while the clock was ahead."""
        latest = now + self.keep
        self.removed |= {key: latest for key, until in self.removed.items() if until > latest}

    def set_leases_back(self, now: int) -> None:
        """A lease that begins later than now was given while the clock was ahead: it begins now."""
        leases: Iterable[BufferRow | StoredBatch] = chain(self.rows.values(), self.batches.values())
        for lease in leases:
            if lease.leased_at > now:
                lease.leased_at, lease.expires = now, now + lease.expires - lease.leased_at

    def set_deadlines_back(self, gate: Gate, now: int) -> None:
        """A deadline that is later than any that the gate sets now was set while the clock was ahead: rows that were
        inserted later than now count as inserted now."""
        latest = buffers.deadline(gate, now, now)
        beyond = [group for group, due_at in self.deadlines.items() if latest is not None and due_at > latest]
        if gate.dues:
            beyond += [group for group in self.deadlines if any(row.at > now for row in self.open[group].values())]
        for group in beyond:
            for row in self.open[group].values():
                row.at = min(row.at, now)
            self.set_deadline(group, gate)

    def _close(self, row: BufferRow) -> None:
        group = self.open.get(row.entry.group, {})
        group.pop(row.id, None)
        if not group:
            self.open.pop(row.entry.group, None)
            self.deadlines.pop(row.entry.group, None)
            self.early.pop(row.entry.group, None)

    def ready(self, group: str, types: Types | None, now: int) -> list[BufferRow]:
        """The rows that a gate counts, oldest first."""
        return [row for row in self.open.get(group, {}).values() if row.free(now) and has_decoder(row.entry, types)]

    def first(self, group: str) -> int:
        """The time of the first open row of the group."""
        return next(iter(self.open[group].values())).at

    def seal(self, name: str, group: str, reason: str, rows: list[BufferRow]) -> str:
        id, early = batch_id(name, group, str(rows[0].id)), self.early.pop(group, OpenResults())
        past = EarlyPast(early.count, rows[-1].id == early.covered)
        self.batches[id] = StoredBatch(group, reason, rows, past=past)
        for row in rows:
            row.batch, row.token, row.expires = id, "", 0
            self._close(row)
        return id

    def set_deadline(self, group: str, gate: Gate) -> None:
        rows = list(self.open.get(group, {}).values())
        gives = ((row, row.entry.due) for row in reversed(rows) if gate.dues)
        dues = (buffers.KnownDue(row.id, *due, row.at) for row, due in gives if due is not None)
        until = buffers.deadline(gate, rows[0].at, rows[-1].at, next(dues, None)) if rows else None
        if until is None:
            self.deadlines.pop(group, None)
        else:
            self.deadlines[group] = until

    def expect_early(self, group: str, gate: Gate, now: int) -> None:
        """The next early result is due one period from now, if it waits for a row and the group has one that no result
        covers."""
        if gate.every is None or not (rows := self.open.get(group)):
            return
        early = self.early.setdefault(group, OpenResults())
        if early.due_at is None and next(reversed(rows)) > early.covered:
            early.due_at = now + length(gate.every)

    def set_early_back(self, gate: Gate, now: int) -> None:
        """A time that is later than any that the gate sets now was set while the clock was ahead."""
        latest = buffers.latest_early(gate, now)
        for early in self.early.values():
            early.due_at = None if early.due_at is None else min(early.due_at, latest)


def has_decoder(entry: Entry, types: Types | None) -> bool:
    """Whether the entry's type has a decoder."""
    return types is None or entry.type in types
