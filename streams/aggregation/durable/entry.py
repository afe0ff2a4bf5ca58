"""One changelog entry: its fields, its encoding, and the split of an entry that is too large."""

import zlib
from typing import Any

import lz4.frame
import msgspec

from sluicegate.streams.aggregation.layout import Bags, GroupState
from sluicegate.streams.aggregation.seen import SeenIds
from sluicegate.streams.aggregation.seen import halves as seen_halves
from sluicegate.streams.contracts.values import GroupNumber
from sluicegate.streams.errors import BufferFull, ChangelogIncomplete

SHORT = 512  # bytes up to which nothing is compressed
PLAIN, LZ4 = b"\x00", b"\x01"
REBUILDING = b"\x02"
"""The first entry of a state that `sluicegate replay --rebuild` has not finished."""
CHECKED = b"\x03"
"""The mark before the CRC-32 of the content, which begins with PLAIN or LZ4. Older entries have no checksum. A store
does not detect every flipped bit, and half of the entries with one wrong byte could still be decoded
(tests/fuzz/test_entries.py)."""
GENERATION = b"\x04"
"""The mark before PLAIN or LZ4 of an entry whose generation is not 0. A program that does not know generations halts at
it."""
PAGED, STALE = b"\x05", b"\x06"
"""The mark before PLAIN or LZ4 of an entry with the number of cold groups. STALE: hot groups may have rows, too. A
program that does not know cold groups, or rows of hot groups, halts at it."""
RECORDS = b"\x07"
"""The mark before PLAIN or LZ4 of an entry that has records of sliding windows in their short form. A program that does
not know this form halts at it."""
BIG_INT = 1


class Section(msgspec.Struct, frozen=True, array_like=True):
    """The part of an entry about sealed items (sluicegate.streams.handlers.sealed): `items` by number (None: ended),
    the attempts that began, and the reasons why items are parked (empty: no longer parked)."""

    items: dict[GroupNumber, bytes | None] = {}
    attempts: dict[GroupNumber, int] = {}
    parked: dict[GroupNumber, str] = {}

    @property
    def empty(self) -> bool:
        return not (self.items or self.attempts or self.parked)


class Amendment(msgspec.Struct, frozen=True, array_like=True):
    """A change by an operator. `at` is the store's time, `who` is user@host, `what` the command, `key` its subject as
    text, `why` the given reason. `detail` is for the command itself."""

    at: float
    who: str
    what: str
    key: str
    why: str
    detail: str = ""


ClockState = tuple[int, int, int, int, float, str]
OriginState = tuple[int, str, int]
"""The highest time of an origin, its state, and the time of its last mark (sluicegate.streams.windows.merged)."""


ClosedState = tuple[int, float | None]
"""A group whose window has closed: the number of its results (ADDED: its result is an additional one of the window),
and the owner's time of the first late record that no result covers yet."""
ADDED = -1
PastResults = tuple[int, int, float | None]
"""An open group that had early results: their number, the number of records in the last one, and the owner's time of
the first record that none covers yet."""


class ColdState(msgspec.Struct, frozen=True, array_like=True):
    """The state of the cold groups of the partition (sluicegate.streams.aggregation.durable.paging). `stale`: hot
    groups may have rows in the store. `starts` is the number of cold groups by the start of their window, in
    milliseconds since 1970; empty without windows. Of groups that stay after their result, 2 ** 62 is added."""

    count: int
    ends: tuple[float, ...]
    at: float
    stale: bool = False
    starts: dict[int, int] = {}


class ChangelogEntry(msgspec.Struct, array_like=True):
    """One changelog entry. `number` is its position; `at` the owner's time. New fields are added at the end with a
    default, because older entries lack them."""

    number: int
    at: float
    states: dict[bytes, GroupState | None]
    added: dict[bytes, Bags]
    whole: dict[bytes, Bags]
    senders: dict[str, list[int]]
    all_senders: dict[str, list[Any]]
    seen: list[SeenIds] = []  # accepted ids, new and old ones, and the source of the ids
    seen_source: str = ""
    sealed: Section = Section()
    withdrawn: list[bytes] = []  # ids that are withdrawn
    asked: dict[bytes, int] = {}  # groups to fire by an operator's command, by key: the offset of their first record
    amended: list[Amendment] = []
    generation: int = 0  # of states, added and whole (sluicegate.streams.contracts.values.Generation)
    clock: ClockState | None = None  # of a rule with windows, if it changed (sluicegate.streams.windows.clock)
    origins: dict[str, OriginState] = {}  # of a partition with several origins: those that changed
    closed: dict[bytes, ClosedState] = {}  # of `states`: those whose windows have closed
    cold: ColdState | None = None  # if it changed
    past: dict[bytes, PastResults] = {}  # of `states`: those that had early results
    # of sliding windows: groups of one record (windows/sliding/totals.py); stays the last field
    records: list[Any] = []


def _ext(code: int, data: memoryview) -> Any:
    return int(bytes(data), 0) if code == BIG_INT else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ChangelogEntry, ext_hook=_ext).decode
_state = msgspec.msgpack.Decoder(GroupState, ext_hook=_ext).decode


def packed(entry: ChangelogEntry, compress: bool) -> bytes:
    fields = msgspec.structs.astuple(entry)
    fields = fields if entry.records else fields[:-1]  # the form of programs that do not know records
    try:
        body = _encode(fields)
    except OverflowError:
        body = _encode(_with_big_ints(msgspec.to_builtins(fields, builtin_types=(bytes,), str_keys=False)))
    content = _compressed(body) if compress else PLAIN + body
    if entry.records:
        content = RECORDS + content
    if entry.cold is not None:
        content = (STALE if entry.cold.stale else PAGED) + content
    return framed(GENERATION + content if entry.generation else content)


def _compressed(body: bytes, plain: bytes = PLAIN) -> bytes:
    """The compressed body after its mark; a short body as it is, after the mark `plain`."""
    return LZ4 + bytes(lz4.frame.compress(body)) if len(body) > SHORT else plain + body


def framed(content: bytes) -> bytes:
    """Prepend the checksum."""
    return CHECKED + zlib.crc32(content).to_bytes(4, "big") + content


def body_of(blob: bytes, mark: bytes) -> bytes:
    """The content after the mark, for an entry that is not part of a changelog. Raises ValueError if the mark is
    another one or the entry is damaged."""
    content = blob[5:]
    if framed(content) != blob or content[:1] != mark:
        raise ValueError("another entry, or a damaged one")
    return content[1:]


def unpacked(blob: bytes) -> ChangelogEntry:
    """Decode an entry. Raises ChangelogIncomplete."""
    if blob == REBUILDING:
        raise ChangelogIncomplete("its rebuild was not finished; run `sluicegate replay --rebuild` of this agent again")
    content = _unframed(blob).removeprefix(GENERATION).removeprefix(PAGED).removeprefix(STALE).removeprefix(RECORDS)
    try:
        if content[:1] not in (PLAIN, LZ4):
            raise ValueError("neither plain nor lz4")
        return _decode(lz4.frame.decompress(content[1:]) if content[:1] == LZ4 else content[1:])
    except (msgspec.MsgspecError, RuntimeError, ValueError, MemoryError, OverflowError) as e:
        raise ChangelogIncomplete(f"a changelog entry cannot be read: {type(e).__name__}") from e


def _unframed(blob: bytes) -> bytes:
    """Raises ChangelogIncomplete."""
    content = blob[5:] if blob[:1] == CHECKED else blob
    if content is not blob and zlib.crc32(content) != int.from_bytes(blob[1:5], "big"):
        raise ChangelogIncomplete(
            "a changelog entry is damaged: its checksum is another one; restore the store from a backup"
        )
    return content


def packed_state(state: GroupState, compress: bool = False) -> bytes:
    """Encode the state of a cold group."""
    try:
        body = _encode(state)
    except OverflowError:
        body = _encode(_with_big_ints(state))
    return framed(_compressed(body, plain=b"") if compress else body)


def unpacked_state(blob: bytes) -> GroupState:
    """Decode the state of a cold group. Raises ChangelogIncomplete."""
    body = _unframed(blob)
    try:
        return _state(lz4.frame.decompress(body[1:]) if body[:1] == LZ4 else body)
    except (msgspec.MsgspecError, RuntimeError, ValueError, MemoryError) as error:
        raise ChangelogIncomplete(f"the row of a cold group cannot be read: {type(error).__name__}") from error


def halves(entry: ChangelogEntry) -> list[ChangelogEntry]:
    """Split the entry into two: ids and the rest first, then by keys, and for a single key by the items of its bags."""
    if entry.seen:
        return _seen_apart(entry)
    if not entry.sealed.empty:
        return _sealed_apart(entry)
    if entry.records:
        return _records_apart(entry)
    keys = list(entry.states)
    if len(keys) > 1:
        one, two = set(keys[: len(keys) // 2]), set(keys[len(keys) // 2 :])
        parts = [_of_groups(entry, some) for some in (one, two)]
    elif not keys or entry.senders or entry.all_senders:
        return _sender_halves(entry)
    else:
        bags = entry.whole or entry.added
        if not bags or max(len(bag) for b in bags.values() for bag in b) < 2:
            raise BufferFull(
                "the state of one group is larger than a changelog entry may be; lower max_record_bytes and max_bytes"
            )
        parts = _bag_halves(entry, bags)
    parts[0].senders, parts[0].all_senders = entry.senders, entry.all_senders
    return parts


def _of_groups(entry: ChangelogEntry, keys: set[bytes]) -> ChangelogEntry:
    states, added, whole = _only(entry.states, keys), _only(entry.added, keys), _only(entry.whole, keys)
    closed, past = _only(entry.closed, keys), _only(entry.past, keys)
    return ChangelogEntry(0, entry.at, states, added, whole, {}, {}, closed=closed, past=past)


def _bag_halves(entry: ChangelogEntry, bags: dict[bytes, Bags]) -> list[ChangelogEntry]:
    """Split the items of one group. The second entry extends the first one."""
    front = {key: [bag[: len(bag) // 2] for bag in b] for key, b in bags.items()}
    back = {key: [bag[len(bag) // 2 :] for bag in b] for key, b in bags.items()}
    closed, past = entry.closed, entry.past
    first = ChangelogEntry(0, entry.at, entry.states, front, {}, {}, {}, closed=closed, past=past)
    if entry.whole:
        first.added, first.whole = {}, front
    return [first, ChangelogEntry(0, entry.at, entry.states, back, {}, {}, {}, closed=closed, past=past)]


def _seen_apart(entry: ChangelogEntry) -> list[ChangelogEntry]:
    """Split off the ids, or split the ids in two."""
    parts = [entry.seen]
    others = [msgspec.structs.replace(entry, seen=[])]
    if not (entry.states or entry.records or entry.senders or entry.all_senders or not entry.sealed.empty):
        parts, others = list(seen_halves(entry.seen)), []
    return others + [ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, part, entry.seen_source) for part in parts]


def _records_apart(entry: ChangelogEntry) -> list[ChangelogEntry]:
    """Split off the records, which precede the states, or split them in two."""
    records, rest = entry.records, msgspec.structs.replace(entry, records=[])
    if entry.states or entry.senders or entry.all_senders:
        return [ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, records=records), rest]
    if len(records) < 2:
        raise BufferFull("a record of a sliding window is larger than a changelog entry may be; lower max_record_bytes")
    middle = len(records) // 2
    parts = [records[:middle], records[middle:]]
    return [ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, records=part) for part in parts]


def _sender_halves(entry: ChangelogEntry) -> list[ChangelogEntry]:
    """Separate one group from the senders, or split the senders by name."""
    if entry.states:
        states = ChangelogEntry(
            0, entry.at, entry.states, entry.added, entry.whole, {}, {}, closed=entry.closed, past=entry.past
        )
        return [states, ChangelogEntry(0, entry.at, {}, {}, {}, entry.senders, entry.all_senders)]
    names = sorted({*entry.senders, *entry.all_senders})
    if len(names) < 2:
        raise BufferFull("the memory of one sender is larger than a changelog entry may be")
    one, two = set(names[: len(names) // 2]), set(names[len(names) // 2 :])
    return [
        ChangelogEntry(0, entry.at, {}, {}, {}, _only(entry.senders, some), _only(entry.all_senders, some))
        for some in (one, two)
    ]


def _only(values: dict[Any, Any], keys: set[Any]) -> dict[Any, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _sealed_apart(entry: ChangelogEntry) -> list[ChangelogEntry]:
    """Split off the sealed items, or split them in two. Their other changes go into the second entry."""
    items, rest = dict(entry.sealed.items), msgspec.structs.replace(entry.sealed, items={})
    if entry.states or entry.records or entry.senders or entry.all_senders:
        return [
            msgspec.structs.replace(entry, sealed=Section()),
            ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, sealed=entry.sealed),
        ]
    if len(items) < 2:
        raise BufferFull(
            "an item that waits for a handler is larger than a changelog entry may be; lower max_record_bytes and "
            "max_bytes"
        )
    numbers = list(items)
    one = {number: items[number] for number in numbers[: len(numbers) // 2]}
    other = {number: items[number] for number in numbers[len(numbers) // 2 :]}
    return [
        ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, sealed=Section(one)),
        ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, sealed=msgspec.structs.replace(rest, items=other)),
    ]


def _with_big_ints(value: Any) -> Any:
    """Encode integers beyond the 64 bits of msgpack, such as large sums. They are hexadecimal, because Python converts
    no decimal text of more than 4,300 digits. Older entries have decimal ones."""
    if isinstance(value, dict):
        return {key: _with_big_ints(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_big_ints(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return msgspec.msgpack.Ext(BIG_INT, hex(value).encode())
    return value
