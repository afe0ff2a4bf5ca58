"""The frozen values of buffers and of the timeout store. Times are aware and in UTC; leases are timedeltas."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from sluicegate.streams.contracts import recurring
from sluicegate.streams.contracts.headers import EVERY
from sluicegate.streams.contracts.record import Header

LATEST_DUE = 253_402_300_799_000_000
"""The last second of the year 9999, in microseconds since 1970: every store has times up to it."""

Types = Mapping[str, Callable[[bytes], Any]]
"""Decoders by `Entry.type`."""


def positive(lease: timedelta) -> timedelta:
    """The lease. Raises ValueError unless it is longer than zero."""
    if not isinstance(lease, timedelta) or lease <= timedelta(0):
        raise ValueError("a lease is a timedelta longer than zero")
    return lease


DueSince = Literal["epoch", "first", "last", "never"]


class EntryDue(NamedTuple):
    """A deadline that an entry gives its group: `after` microseconds `since` 1970 (`epoch`), since the insert of the
    group's `first` open entry, or since the insert of this entry (`last`). `never` takes the known deadline away."""

    since: DueSince
    after: int = 0

    def at(self, first: int, last: int) -> int | None:
        """The time in microseconds since 1970. `first` and `last` are the times of the inserts. None: never."""
        if self.since == "never":
            return None
        begin = {"epoch": 0, "first": first, "last": last}[self.since]
        return max(0, min(begin + self.after, LATEST_DUE))


@dataclass(frozen=True, slots=True)
class Entry:
    """One buffered record. `idempotency_key` is the same for each delivery of a message (its broker id, else
    topic/partition/offset; never random). `correlation_id` names the record in the buffer. `type` names the decoder of
    `data`. Entries of one `group` are completed together. With `ends` the group is complete with this entry: the insert
    that adds it seals the group. `due` is the deadline that it gives the group. Both are no part of what readers of the
    buffer get.

    `value` is what `data` decoded to when it was read; in a store opened without types, the bytes themselves. Raises
    ValueError.
    """

    idempotency_key: str
    correlation_id: str
    type: str = ""
    data: bytes = b""
    headers: Sequence[Header] = ()
    group: str = ""
    value: Any = field(default=None, compare=False)
    ends: bool = field(default=False, compare=False)
    due: EntryDue | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("idempotency_key", "correlation_id"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"an Entry needs its {name}: a text that is not blank")
        if not isinstance(self.data, bytes):
            raise ValueError("the data of an Entry are bytes")
        object.__setattr__(self, "headers", tuple((name, value) for name, value in self.headers))


PACK = "pack"
"""The type of entries that hold packed records: a store opened with types needs a decoder for it."""
_LENGTH = 4  # bytes


class Pack(NamedTuple):
    """Records of one `group`, in order. `data`, as `pack_data` makes it, has these parts: the length of the common
    part, the common part, the number of `items`, the length of each, the items. Lengths and the number are 4 bytes,
    big-endian. A store may hold the pack as one row, cut where a count ends in it, or each record as a row. In that
    case `first` is the idempotency key of the first record, and the keys of the others are made from it. With `ends`
    the group is complete with the last record; `due` is the deadline that the last record gives."""

    group: str
    first: str
    items: int
    data: bytes
    ends: bool = False
    due: EntryDue | None = None


class PackBody(NamedTuple):
    """The common part, the length of each item, and the items one behind the other."""

    common: bytes
    lengths: tuple[int, ...]
    items: bytes


def pack_data(common: bytes, items: Sequence[bytes]) -> bytes:
    count = len(items)
    lengths = struct.pack(f">I{count}I", count, *map(len, items))
    return b"".join((len(common).to_bytes(_LENGTH), common, lengths, *items))


def pack_body(data: bytes) -> PackBody:
    """Split the data of a pack. Raises ValueError for other data."""
    try:
        begin = _LENGTH + int.from_bytes(data[:_LENGTH])
        (count,) = struct.unpack_from(">I", data, begin)
        if (end := begin + _LENGTH + count * _LENGTH) > len(data):
            raise ValueError("a pack is cut off")
        lengths = struct.unpack_from(f">{count}I", data, begin + _LENGTH)
    except struct.error as error:
        raise ValueError("a pack is cut off") from error
    if end + sum(lengths) != len(data):
        raise ValueError("a pack is cut off")
    return PackBody(data[_LENGTH:begin], lengths, data[end:])


def pack_parts(data: bytes) -> list[bytes]:
    """The common part, and each item. Raises ValueError for data of another form."""
    common, lengths, items = pack_body(data)
    ends = list(accumulate(lengths, initial=0))
    return [common, *(items[begin:end] for begin, end in pairwise(ends))]


def pack_slice(data: bytes, begin: int, count: int) -> bytes:
    """A pack of `count` items, beginning with this one. The pack itself when these are all. Raises ValueError when it
    has no such items."""
    head = _LENGTH + int.from_bytes(data[:_LENGTH])
    if not begin and data[head : head + _LENGTH] == count.to_bytes(_LENGTH):
        return data
    common, lengths, items = pack_body(data)
    if not 0 <= begin <= begin + count <= len(lengths):
        raise ValueError("a pack has fewer items")
    start = sum(lengths[:begin])
    end = start + sum(lengths[begin : begin + count])
    own = struct.pack(f">I{count}I", count, *lengths[begin : begin + count])
    return b"".join((len(common).to_bytes(_LENGTH), common, own, items[start:end]))


def singles(packs: Sequence[Pack]) -> list[Entry]:
    """Each record as an entry of its own, which is a pack of one."""
    entries = []
    for pack in packs:
        common, *items = pack_parts(pack.data)
        for number, item in enumerate(items):
            key = f"{pack.first}+{number}" if number else pack.first
            last = (pack.ends, pack.due) if number == len(items) - 1 else (False, None)
            entries.append(Entry(key, key, PACK, pack_data(common, [item]), (), pack.group, None, *last))
    return entries


def entry_key(topic: str, partition: int, offset: int) -> str:
    """The idempotency key of a Kafka record without an id of its own. A redelivered record has the same key."""
    return f"{topic}/{partition}/{offset}"


class InsertResult(NamedTuple):
    """How many entries were new, and how many were known already (buffered, or removed within `keep_keys`)."""

    stored: int
    duplicates: int


class PositionMove(NamedTuple):
    """The position of one source partition, compared and set with an insert. `expected` is the next offset so far (0:
    none was set), `next` the one after the last of this batch. The key is the topic id, so a topic that is made again
    begins at 0."""

    topic_id: str
    partition: int
    expected: int
    next: int


@dataclass(frozen=True, slots=True)
class Gate:
    """When a group of a buffer is sealed: at `count` resolved entries, or so long after its first or its last entry.
    With `dues` also at the deadline of the newest open entry that has one (`Entry.due`). A deadline that has passed
    seals the group with the entry that gives it. `lease` is how long the worker that fires the batch may take. With
    `every` an early result of an open group is due so long after the insert of the first entry that no result
    covers."""

    count: int | None = None
    after_first: timedelta | None = None
    after_last: timedelta | None = None
    lease: timedelta = timedelta(minutes=5)
    dues: bool = False
    every: timedelta | None = None

    @property
    def timed(self) -> bool:
        """Whether a time may seal a group."""
        return self.dues or self.after_first is not None or self.after_last is not None

    def __post_init__(self) -> None:
        positive(self.lease)
        if self.count is None and not self.timed:
            raise ValueError("a Gate needs a count or a time")
        if self.count is not None and self.count < 1:
            raise ValueError("the count of a Gate is at least 1")
        if any(time is not None and time <= timedelta(0) for time in (self.after_first, self.after_last, self.every)):
            raise ValueError("the times of a Gate are longer than zero")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows that were not leased, oldest first. `ids[i]` is the row of `entries[i]`. `unresolved` rows could not be
    decoded and stay. Others hold `leased_elsewhere` rows, until `next_expiry` at the earliest; so a snapshot may be
    empty while the buffer is not."""

    ids: Sequence[str]
    entries: Sequence[Entry]
    unresolved: int
    token: str
    expires_at: datetime | None
    leased_elsewhere: int = 0
    next_expiry: datetime | None = None


EMPTY = Snapshot((), (), 0, "", None)


class EarlyPast(NamedTuple):
    """The early results that a group had: how many, and whether the last one covers all entries of the group."""

    results: int = 0
    whole: bool = False


NO_RESULTS = EarlyPast()


class EarlyState(NamedTuple):
    """The early results of an open group: how many it had, and when the next one is due (None: no entry waits for one).
    While a worker makes a result, the next one is due when its lease ends."""

    results: int
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """The entries that an open group has now, leased for an early result by the holder of its `token`. `last` is the
    number of the newest one. The group stays open: it takes further entries, and may be sealed meanwhile."""

    group: str
    entries: Sequence[Entry]
    last: int
    past: EarlyPast
    token: str


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A completed group with fixed members, leased by the holder of its `token`. It is returned unchanged, with the
    same `id`, until it is completed. `reason` is count, until, timeout or manual. `attempts` counts its leases, from 1.
    `past` are the early results that it had while it was open."""

    id: str
    group: str
    reason: str
    ids: Sequence[str]
    entries: Sequence[Entry]
    unresolved: int
    token: str
    expires_at: datetime
    attempts: int
    past: EarlyPast = NO_RESULTS


def batch_id(name: str, group: str, first: str) -> str:
    """The id of the batch whose oldest row is `first`. A batch that fires again after a crash has the same id."""
    return str(uuid5(_space(name), f"{group}/{first}"))


@lru_cache(64)
def _space(name: str) -> UUID:
    return uuid5(NAMESPACE_OID, f"sluicegate/{name}")


class Filled(NamedTuple):
    """The result of an insert, and the batches that it completed. No other caller receives these batches."""

    result: InsertResult
    batches: Sequence[SealedBatch]


@dataclass(frozen=True, slots=True)
class Timeout:
    """A message to send to topic `destination` at `due_at`. `owner` names what it belongs to (a saga). With `after` it
    was scheduled at `due_at - after`. If the store's clock is set back to before that time, the timeout is due `after`
    from then. With `every` it recurs, first at `due_at` and then at the times of
    sluicegate.streams.contracts.recurring, until it is cancelled: `every` is stored as a header. Raises ValueError."""

    id: UUID
    destination: str
    due_at: datetime
    key: bytes | None = None
    value: bytes | None = b""
    headers: Sequence[Header] = ()
    owner: str | None = None
    after: timedelta | None = None
    every: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, UUID) or self.id.int == 0:
            raise ValueError("the id of a Timeout is a UUID that is not nil")
        if not isinstance(self.destination, str) or not self.destination.strip():
            raise ValueError("a Timeout needs a destination: the topic that it goes to")
        if not isinstance(self.due_at, datetime) or self.due_at.tzinfo is None:
            raise ValueError("due_at of a Timeout is a datetime with a time zone")
        if self.after is not None and (not isinstance(self.after, timedelta) or self.after < timedelta(0)):
            raise ValueError("after of a Timeout is a timedelta of zero or more")
        object.__setattr__(self, "due_at", self.due_at.astimezone(UTC))
        object.__setattr__(self, "headers", tuple((name, value) for name, value in self.headers))
        self._recur()

    def _recur(self) -> None:
        """Write `every` as a header, or read it from there. What was stored is not checked again."""
        stored = next((value.decode() for name, value in self.headers if name == EVERY and value is not None), None)
        if self.every is None:
            object.__setattr__(self, "every", stored)
        elif stored is None:
            recurring.recurrence(self.every)
            object.__setattr__(self, "headers", (*self.headers, (EVERY, self.every.encode())))
        elif stored != self.every:
            raise ValueError("a Timeout recurs at other times than its header says")

    def following(self, now: datetime) -> "Timeout":
        """The next one of a timeout that recurs: the first after this one that is not due before `now`, the store's
        time. What passed meanwhile is left out. Raises ValueError."""
        due = recurring.recurrence(self.every or "").following(self.due_at, now)
        return replace(self, due_at=due, after=max(timedelta(0), due - now))

    @property
    def scheduled_at(self) -> datetime | None:
        """The time of the store's clock from which `after` counts."""
        return None if self.after is None else self.due_at - self.after


@dataclass(frozen=True, slots=True)
class TimeoutBatch(Sequence[Timeout]):
    """EntryDue timeouts, earliest first, locked by `owner` until `expires_at`. `next_due` hints when the next unlocked
    timeout is due. It is in the past when the batch was full."""

    timeouts: Sequence[Timeout]
    owner: str
    expires_at: datetime | None
    next_due: datetime | None

    def __getitem__(self, index: Any) -> Any:
        return self.timeouts[index]

    def __len__(self) -> int:
        return len(self.timeouts)

    def __iter__(self) -> Iterator[Timeout]:
        return iter(self.timeouts)


def resolved(entry: Entry, types: Types | None) -> Entry | None:
    """The entry with its value. None when its type is unknown or its data cannot be decoded."""
    if types is None:
        return replace(entry, value=entry.data)
    decode = types.get(entry.type)
    if decode is None:
        return None
    try:
        return replace(entry, value=decode(entry.data))
    except Exception:
        return None
