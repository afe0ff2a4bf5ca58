"""What a commit appends to the changelog of a partition, and how state comes back from it.

Rolling compaction: the log is never replaced by one big snapshot. When it has grown past about three times the live
state, a cycle begins at the next entry number; commits then carry, beside what changed, a slice of the groups that were
open when it began, in full, and when all of them have passed, everything older is dropped. So no commit is large, the
store needs no snapshot parts, and write amplification stays under 2. Replaying is the same as for what changed: a
state replaces, `whole` replaces bags, `added` extends them.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

import lz4.frame
import msgspec

from streams.aggregation.groups import Groups
from streams.aggregation.layout import BYTES, COUNT, FIRST, Bags, State
from streams.aggregation.seen import Batch, Seen, weight
from streams.aggregation.seen import halves as seen_halves
from streams.errors import BufferFull, ChangelogIncomplete

ENTRY_LIMIT = 4 * 1024 * 1024
SLICE = 64 * 1024  # least bytes of old state that a commit of a cycle carries
SLACK = 4 * 1024 * 1024  # bytes of log below which no cycle begins
GROWTH = 3  # the log over the live state at which one begins
PLAIN, LZ4 = b"\x00", b"\x01"
BIG_INT = 1


class Entry(msgspec.Struct, array_like=True):
    """One changelog entry. `number` is its place; `at` the owner's time. New fields come last, with a default: old entries lack them."""

    number: int
    at: float
    states: dict[bytes, State | None]
    added: dict[bytes, Bags]
    whole: dict[bytes, Bags]
    senders: dict[str, list[int]]
    all_senders: dict[str, list[Any]]
    seen: list[Batch] = []  # ids accepted, new and old ones; what they were read from
    seen_source: str = ""
    withdrawn: list[bytes] = []  # ids that do not count, after all


def _ext(code: int, data: memoryview) -> Any:
    return int(bytes(data)) if code == BIG_INT else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry, ext_hook=_ext).decode


class Changelog:
    """The log of one partition as its owner keeps it. `numbers` are the entries kept, with their sizes."""

    __slots__ = ("_boundary", "_compress", "_ids", "_live", "_queue", "_refreshed", "_seen", "groups", "kept", "last", "size")

    def __init__(self, groups: Groups, first: int, seen: Seen | None = None) -> None:
        self.groups, self._seen = groups, seen
        self.kept: deque[tuple[int, int]] = deque()
        self.last = first - 1
        self.size = 0
        self._compress = bool(groups.rule.plan.bags)
        self._live = self._boundary = 0
        self._queue: deque[bytes] | None = None
        self._ids: deque[bytes] = deque()
        self._refreshed = 0

    def entries(self, senders: dict[str, list[int]], all_senders: Any, now: float) -> tuple[list[bytes], int | None]:
        """The entries of this commit, each at most ENTRY_LIMIT, and the number below which the log may be dropped.

        `all_senders()` is called when a cycle ends. Takes what `groups` noted as changed since the last call.
        """
        groups = self.groups
        states, groups.touched = groups.touched, {}
        added, groups.added = groups.added, {}
        ids = self._seen.changes(now) if self._seen is not None else []
        if not states and not senders and not ids and self._queue is None:
            return [], None
        entry = Entry(self.last + 1, now, states, added, {}, senders, {}, ids, self._seen.source if self._seen is not None else "")
        if self._queue is None and self.size > GROWTH * self._live + SLACK:
            self._queue, self._boundary, self._refreshed = deque(groups.states), self.last + 1, 0
            self._ids = self._seen.remembered() if self._seen is not None else deque()
        done = self._queue is not None and self._refresh(entry)
        if done:
            entry.all_senders, self._queue = all_senders(), None
        packed = self._split(entry)
        for blob in packed:
            self.last += 1
            self.kept.append((self.last, len(blob)))
            self.size += len(blob)
        return packed, self._forget(self._boundary) if done else None

    def _refresh(self, entry: Entry) -> bool:
        """Put a slice of old state into the entry; True when none is left."""
        groups, queue = self.groups, self._queue or deque()
        grown = sum(len(key) + 48 for key in entry.states) + sum(len(i) for b in entry.added.values() for i in b) * 64
        budget = max(SLICE, grown + sum(weight(ids) for _, ids in entry.seen))
        while queue and budget > 0:
            key = queue.popleft()
            state = groups.states.get(key)
            if state is None:
                continue
            entry.states[key] = state
            bags = groups.bags.get(key)
            if bags is not None:
                entry.whole[key] = [list(bag) for bag in bags]
                entry.added.pop(key, None)
            spent = self._weight(key, state)
            budget -= spent
            self._refreshed += spent
        self._refresh_ids(entry, budget)
        if not queue and not self._ids:
            self._live = self._refreshed
        return not queue and not self._ids

    def _refresh_ids(self, entry: Entry, budget: int) -> None:
        if self._seen is not None and self._ids:
            old = self._seen.slice(self._ids, budget, entry.at)
            self._refreshed += sum(weight(ids) for _, ids in old)
            entry.seen = old + entry.seen

    def _forget(self, boundary: int) -> int:
        while self.kept and self.kept[0][0] < boundary:
            self.size -= self.kept.popleft()[1]
        return boundary

    def _split(self, entry: Entry) -> list[bytes]:
        """The entry as blobs of at most ENTRY_LIMIT, numbered one after the other."""
        blobs: list[bytes] = []
        waiting = [entry]
        while waiting:
            part = waiting.pop()
            part.number = self.last + 1 + len(blobs)
            blob = self._pack(part)
            if len(blob) <= ENTRY_LIMIT:
                blobs.append(blob)
            else:
                waiting += reversed(halves(part))
        return blobs

    def _pack(self, entry: Entry) -> bytes:
        try:
            body = _encode(entry)
        except OverflowError:
            body = _encode(_with_big_ints(msgspec.to_builtins(entry, builtin_types=(bytes,), str_keys=False)))
        if self._compress and len(body) > 512:
            return LZ4 + bytes(lz4.frame.compress(body))
        return PLAIN + body

    def withdrawal(self, ids: list[bytes], now: float) -> bytes:
        """The entry that takes ids of this commit's other entries back; it is kept when `withdrawn` is called."""
        return self._pack(Entry(self.last + 1, now, {}, {}, {}, {}, {}, withdrawn=ids))

    def withdrawn(self, blob: bytes, ids: list[bytes]) -> None:
        """That entry was committed."""
        self.last += 1
        self.kept.append((self.last, len(blob)))
        self.size += len(blob)
        if self._seen is not None:
            self._seen.withdraw(ids)

    def replay(self, blobs: Iterable[bytes], first: int, last: int, senders: Any, strict: bool = True) -> None:
        """Restore groups (and `senders`) from the entries `first` to `last`. Raises ChangelogIncomplete unless all are there;
        only the twin of a chaos test is not `strict`."""
        expected, at = first, 0.0
        for blob in blobs:
            entry = _unpack(blob)
            if strict and entry.number != expected:
                raise ChangelogIncomplete(f"changelog entry {expected} is missing, {entry.number} stands in its place")
            expected += 1
            _apply(self.groups, entry)
            senders.replay(entry.senders, entry.all_senders, entry.at)
            if self._seen is not None:
                self._seen.replay(entry.seen, entry.seen_source)
                self._seen.withdraw(entry.withdrawn)
                at = entry.at
            self.kept.append((entry.number, len(blob)))
            self.size += len(blob)
        if strict and expected != last + 1:
            raise ChangelogIncomplete(f"changelog entries {expected} to {last} are missing")
        self.last = last
        _settle(self.groups)
        self._live = sum(self._weight(key, state) for key, state in self.groups.states.items())
        if self._seen is not None:
            self._seen.settle(at)
            self._live += self._seen.bytes

    def _weight(self, key: bytes, state: State) -> int:
        """About the bytes of a group in the log."""
        return 64 + len(key) + int(state[BYTES]) + sum(len(state[fold.slot]) for fold in self.groups.rule.plan.folds)


def halves(entry: Entry) -> list[Entry]:
    """The same changes as two entries: the ids apart, by keys, or when there is one key, by the items of its bags."""
    if entry.seen:
        return _seen_apart(entry)
    keys = list(entry.states)
    if len(keys) > 1:
        one, two = set(keys[: len(keys) // 2]), set(keys[len(keys) // 2 :])
        parts = [
            Entry(0, entry.at, _only(entry.states, some), _only(entry.added, some), _only(entry.whole, some), {}, {}) for some in (one, two)
        ]
    elif not keys or entry.senders or entry.all_senders:
        return _sender_halves(entry)
    else:
        bags = entry.whole or entry.added
        if not bags or max(len(bag) for b in bags.values() for bag in b) < 2:
            raise BufferFull("the state of one group is larger than a changelog entry may be; lower max_record_bytes and max_bytes")
        front = {key: [bag[: len(bag) // 2] for bag in b] for key, b in bags.items()}
        back = {key: [bag[len(bag) // 2 :] for bag in b] for key, b in bags.items()}
        whole = bool(entry.whole)
        parts = [
            Entry(0, entry.at, entry.states, {} if whole else front, front if whole else {}, {}, {}),
            Entry(0, entry.at, entry.states, back, {}, {}, {}),
        ]
    parts[0].senders, parts[0].all_senders = entry.senders, entry.all_senders
    return parts


def _seen_apart(entry: Entry) -> list[Entry]:
    """The ids apart from all else, or in two."""
    parts = [entry.seen]
    others = [msgspec.structs.replace(entry, seen=[])]
    if not (entry.states or entry.senders or entry.all_senders):
        parts, others = list(seen_halves(entry.seen)), []
    return others + [Entry(0, entry.at, {}, {}, {}, {}, {}, part, entry.seen_source) for part in parts]


def _sender_halves(entry: Entry) -> list[Entry]:
    """The one group apart from the senders, or the senders by name."""
    if entry.states:
        states = Entry(0, entry.at, entry.states, entry.added, entry.whole, {}, {})
        return [states, Entry(0, entry.at, {}, {}, {}, entry.senders, entry.all_senders)]
    names = sorted({*entry.senders, *entry.all_senders})
    if len(names) < 2:
        raise BufferFull("what is remembered of one sender is larger than a changelog entry may be")
    one, two = set(names[: len(names) // 2]), set(names[len(names) // 2 :])
    return [Entry(0, entry.at, {}, {}, {}, _only(entry.senders, some), _only(entry.all_senders, some)) for some in (one, two)]


def _only(values: dict[Any, Any], keys: set[Any]) -> dict[Any, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _unpack(blob: bytes) -> Entry:
    try:
        body = lz4.frame.decompress(blob[1:]) if blob[:1] == LZ4 else blob[1:]
        return _decode(body)
    except (msgspec.MsgspecError, RuntimeError, ValueError) as e:
        raise ChangelogIncomplete(f"a changelog entry cannot be read: {type(e).__name__}") from e


def _apply(groups: Groups, entry: Entry) -> None:
    states, bags, kinds = groups.states, groups.bags, groups.rule.plan.bags
    for key, state in entry.states.items():
        if state is None:
            states.pop(key, None)
            bags.pop(key, None)
            continue
        old = states.get(key)
        if kinds and (old is None or old[FIRST] != state[FIRST]):
            states.pop(key, None)
            bags[key] = [{} if kind.unique else [] for kind in kinds]
        states[key] = state
    for source, fresh in ((entry.whole, True), (entry.added, False)):
        for key, new in source.items():
            if fresh:
                bags[key] = [{} if kind.unique else [] for kind in kinds]
            for bag, items in zip(bags[key], new, strict=True):
                bag.update(dict.fromkeys(items)) if isinstance(bag, dict) else bag.extend(items)


def _settle(groups: Groups) -> None:
    """After the last entry: order by opening, sizes, deadlines; and that what was collected is as much as was counted."""
    groups.states = dict(sorted(groups.states.items(), key=lambda item: item[1][FIRST]))
    groups.bytes = sum(state[BYTES] for state in groups.states.values())
    everything = [i for i, r in enumerate(_bag_reducers(groups)) if r.kind == "collect" and r.field is None]
    for key, state in groups.states.items():
        for index in everything:
            if len(groups.bags[key][index]) != state[COUNT]:
                raise ChangelogIncomplete("a group holds fewer items than it counted: an entry before the first kept one was needed")
    groups.rearm()


def _bag_reducers(groups: Groups) -> list[Any]:
    """In the order of the bags (reducers.plan)."""
    return sorted((r for r in groups.rule.aggregation.compute if r.kind in ("collect", "distinct")), key=lambda r: r.name)


def _with_big_ints(value: Any) -> Any:
    """msgpack ends at 64 bits; a sum of integers does not."""
    if isinstance(value, dict):
        return {key: _with_big_ints(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_big_ints(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return msgspec.msgpack.Ext(BIG_INT, str(value).encode())
    return value
