"""Writes the changelog of a partition with its commits, and restores state from it.

Rolling compaction: no snapshot replaces the log. When the log has grown to about three times the live state, a cycle
begins at the next entry number. Each commit of the cycle carries, beside its changes, a slice of the groups that were
open when the cycle began, in full. When all of them are written, older entries are dropped. So no commit is large, the
store needs no snapshots, and write amplification stays under 2. Replay treats both alike: a state replaces the earlier
one, `whole` replaces bags, `added` extends them.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Protocol, TypeVar

import msgspec

from sluicegate.streams.aggregation.contents import AT_KEY, WEIGHT
from sluicegate.streams.aggregation.durable.entry import Amendment, ChangelogEntry, Section, halves, packed, unpacked
from sluicegate.streams.aggregation.durable.paging import Paging
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES, COUNT, FIRST, ROWS, merges
from sluicegate.streams.aggregation.reducers import places
from sluicegate.streams.aggregation.seen import KnownIds, weight
from sluicegate.streams.errors import ChangelogIncomplete

ENTRY_LIMIT = 4 * 1024 * 1024
SLICE = 64 * 1024  # minimum bytes of old state in each commit of a cycle
SLACK = 4 * 1024 * 1024  # no cycle begins while the log has fewer bytes
GROWTH = 3  # a cycle begins when the log is so many times the live state
AMENDED = 30 * 24 * 3600.0  # seconds for which amendments are kept
T = TypeVar("T")


class SealedItems(Protocol):
    """The part of the sealed items of slow handlers that the changelog uses."""

    bytes: int

    def changes(self) -> Section: ...
    def whole(self) -> Section: ...
    def replay(self, section: Section) -> None: ...


class Changelog:
    """The changelog of one partition in the memory of its owner. `kept` has the number and size of each entry in the
    store."""

    __slots__ = (
        "_boundary",
        "_ids",
        "_live",
        "_queue",
        "_refreshed",
        "_sealed",
        "_seen",
        "amended",
        "generation",
        "groups",
        "kept",
        "last",
        "older",
        "paging",
        "size",
    )

    def __init__(
        self,
        groups: Groups,
        first: int,
        seen: KnownIds | None = None,
        sealed: SealedItems | None = None,
        generation: int = 0,
        older: Mapping[int, Groups] = {},
    ) -> None:
        self.groups, self._seen, self._sealed = groups, seen, sealed
        self.generation = generation
        self.older = dict(older)
        self.paging = Paging(groups)
        self.kept: deque[tuple[int, int]] = deque()
        self.amended: dict[Amendment, None] = {}  # in order, without repeats: compaction writes them again
        self.last = first - 1
        self.size = 0
        self._live = self._boundary = 0
        self._queue: deque[tuple[int, deque[bytes]]] | None = None
        self._ids: deque[bytes] = deque()
        self._refreshed = 0

    def entries(self, senders: dict[str, list[int]], all_senders: Any, now: float) -> tuple[list[bytes], int | None]:
        """Take the changes of `groups` since the last call. Returns the entries of this commit, each of at most
        ENTRY_LIMIT bytes, and the number below which the store may drop entries. `all_senders()` is called when a cycle
        ends."""
        groups = self.groups
        states, added, records = groups.changes()
        parts = self._of_older(now) if self.older else {}
        ids = self._seen.changes(now) if self._seen is not None else []
        sealed = self._sealed.changes() if self._sealed is not None else Section()
        clock = groups.clock(whole=False)
        changed = states or records or senders or ids or parts or self.paging.changed
        if sealed.empty and clock is None and not changed and self._queue is None:
            return [], None
        entry = parts[self.generation] = ChangelogEntry(
            self.last + 1,
            now,
            states,
            added,
            {},
            senders,
            {},
            ids,
            self._seen.source if self._seen is not None else "",
            sealed,
            generation=self.generation,
            clock=clock,
            origins=groups.origins(whole=False),
            closed=_chosen(groups.closed, states),
            past=_chosen(groups.early.past, states),
            cold=self.paging.noted() if self.paging.changed else None,
            records=records,
        )
        if self._queue is None and self.size > GROWTH * self._live + SLACK:
            self._begin_cycle()
        done = self._queue is not None and self._refresh(parts, entry)
        if done:
            self._complete(parts, entry, all_senders())
        packed = [blob for part in parts.values() for blob in self._packed(part)]
        return packed, self._forget(self._boundary) if done else None

    def _begin_cycle(self) -> None:
        self._queue = deque((number, part.unwritten()) for number, part in self.every().items())
        self._boundary, self._refreshed = self.last + 1, 0
        self._ids = self._seen.remembered() if self._seen is not None else deque()

    def _complete(self, parts: dict[int, ChangelogEntry], entry: ChangelogEntry, all_senders: Any) -> None:
        """End the cycle: add the state that does not belong to a group, so older entries can be dropped. The clocks of
        older generations are also added: the newest one may not have followed them yet."""
        for number, groups in self.older.items():
            if (clock := groups.clock(whole=True)) is not None:
                part = parts.setdefault(number, ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, generation=number))
                part.clock, part.origins = clock, groups.origins(whole=True)
        entry.all_senders, self._queue = all_senders, None
        entry.amended = [amendment for amendment in self.amended if amendment.at > entry.at - AMENDED]
        self.amended = dict.fromkeys(entry.amended)
        entry.sealed = entry.sealed if self._sealed is None else _all(self._sealed, entry.sealed)
        entry.clock = self.groups.clock(whole=True)
        entry.origins = self.groups.origins(whole=True)
        entry.cold = self.paging.noted() if self.paging.has_rows else entry.cold

    def every(self) -> dict[int, Groups]:
        """The groups of all generations, by number."""
        return {**self.older, self.generation: self.groups}

    def _of_older(self, now: float) -> dict[int, ChangelogEntry]:
        """The entries with the changes of the older generations."""
        parts: dict[int, ChangelogEntry] = {}
        for number, groups in self.older.items():
            if groups.changed or groups.added:
                states, added, records = groups.changes()
                part = ChangelogEntry(0, now, states, added, {}, {}, {}, generation=number, records=records)
                part.closed, part.past = _chosen(groups.closed, states), _chosen(groups.early.past, states)
                parts[number] = part
        return parts

    def _packed(self, entry: ChangelogEntry) -> list[bytes]:
        blobs = self._split(entry)
        for blob in blobs:
            self.last += 1
            self.kept.append((self.last, len(blob)))
            self.size += len(blob)
        return blobs

    def _refresh(self, parts: dict[int, ChangelogEntry], entry: ChangelogEntry) -> bool:
        """Add a slice of old state to the entries of this commit. Returns True if it was the last slice."""
        queue = self._queue or deque()
        grown = sum(len(key) + 48 for part in parts.values() for key in part.states)
        grown += sum(WEIGHT + len(record[AT_KEY]) for part in parts.values() for record in part.records)
        grown += sum(len(i) for part in parts.values() for b in part.added.values() for i in b) * 64
        budget = max(SLICE, grown + sum(weight(ids) for _, ids in entry.seen))
        while queue and budget > 0:
            number, keys = queue[0]
            groups = self.every().get(number)
            if groups is not None and keys:
                part = parts.setdefault(number, ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, generation=number))
                spent = groups.write(keys, part, budget)
                budget, self._refreshed = budget - spent, self._refreshed + spent
                names = tuple(part.states)
                part.closed = _chosen(groups.closed, names)
                part.past = _chosen(groups.early.past, names)
            if groups is None or not keys:
                queue.popleft()
        self._refresh_ids(entry, budget)
        if not queue and not self._ids:
            self._live = self._refreshed + (self._sealed.bytes if self._sealed is not None else 0)
        return not queue and not self._ids

    def _refresh_ids(self, entry: ChangelogEntry, budget: int) -> None:
        if self._seen is not None and self._ids:
            old = self._seen.slice(self._ids, budget, entry.at)
            self._refreshed += sum(weight(ids) for _, ids in old)
            entry.seen = old + entry.seen

    def _forget(self, boundary: int) -> int:
        while self.kept and self.kept[0][0] < boundary:
            self.size -= self.kept.popleft()[1]
        return boundary

    def _split(self, entry: ChangelogEntry, before: int = 0) -> list[bytes]:
        """Encode the entry as blobs of at most ENTRY_LIMIT bytes, numbered consecutively. `before` is the number of
        blobs that precede it."""
        blobs: list[bytes] = []
        waiting, entry.amended, amended = [entry], [], entry.amended
        if amended:
            waiting.append(ChangelogEntry(0, entry.at, {}, {}, {}, {}, {}, amended=amended))
        while waiting:
            part = waiting.pop()
            part.number, part.generation = self.last + 1 + before + len(blobs), entry.generation
            blob = packed(part, bool(part.added or part.whole))
            if len(blob) <= ENTRY_LIMIT:
                blobs.append(blob)
            else:
                parts = halves(part)
                parts[-1].clock, parts[-1].origins, parts[-1].cold = part.clock, part.origins, part.cold
                waiting += reversed(parts)
        return blobs

    def late(self, ids: list[bytes], sealed: Section, now: float) -> list[bytes]:
        """The entries that result from the handlers' calls: they withdraw ids of other entries of this commit, and
        store items. Call `settled` after the commit."""
        blobs = self._split(ChangelogEntry(0, now, {}, {}, {}, {}, {}, withdrawn=ids)) if ids else []
        if not sealed.empty:
            blobs += self._split(ChangelogEntry(0, now, {}, {}, {}, {}, {}, sealed=sealed), len(blobs))
        return blobs

    def settled(self, blobs: Sequence[bytes], ids: list[bytes]) -> None:
        """The entries of `late` were committed. Register them, and withdraw the ids."""
        for blob in blobs:
            self.last += 1
            self.kept.append((self.last, len(blob)))
            self.size += len(blob)
        if self._seen is not None:
            self._seen.withdraw(ids)

    def replay(self, blobs: Iterable[bytes], first: int, last: int, senders: Any) -> None:
        """Restore groups (and `senders`) from the entries `first` to `last`.

        Raises ChangelogIncomplete if an entry is missing or does not fit.
        """
        try:
            self._replay(blobs, first, last, senders)
        except (TypeError, LookupError, ValueError, AttributeError, ArithmeticError) as error:
            raise ChangelogIncomplete(
                f"a changelog entry does not fit the entries before it ({type(error).__name__})"
            ) from error

    def _replay(self, blobs: Iterable[bytes], first: int, last: int, senders: Any) -> None:
        expected, at, every = first, 0.0, self.every()
        for blob in blobs:
            entry = unpacked(blob)
            if entry.number != expected:
                raise ChangelogIncomplete(f"changelog entry {expected} is missing, {entry.number} stands in its place")
            expected += 1
            if (groups := every.get(entry.generation)) is not None:  # else the generation has ended
                _apply(groups, entry)
                if entry.amended and entry.states:
                    groups.forget_older([key for key, state in entry.states.items() if state is None])
                if entry.clock is not None:
                    groups.restore_clock(entry.clock, entry.origins)
            for groups in every.values():  # a group of any generation is identified by the offset of its first record
                groups.asked |= entry.asked
            self.amended.update(dict.fromkeys(entry.amended))
            if entry.cold is not None:
                self.paging.restore(entry.cold)
            senders.replay(entry.senders, entry.all_senders, entry.at)
            if self._sealed is not None:
                self._sealed.replay(entry.sealed)
            if self._seen is not None:
                self._seen.replay(entry.seen, entry.seen_source)
                self._seen.withdraw(entry.withdrawn)
                at = entry.at
            self.kept.append((entry.number, len(blob)))
            self.size += len(blob)
        if expected != last + 1:
            raise ChangelogIncomplete(f"changelog entries {expected} to {last} are missing")
        self.last = last
        self._live = 0
        for groups in every.values():
            _settle(groups)
            self._live += sum(groups.weight(key, state) for key, state in groups.states.items())
        if self._seen is not None:
            self._seen.settle(at)
            self._live += self._seen.log_bytes


def _chosen(known: Mapping[bytes, T], keys: Iterable[bytes]) -> dict[bytes, T]:
    """The entries of `known` for these keys. Keys without an entry are left out."""
    return {key: known[key] for key in keys if key in known} if known else {}


def _apply(groups: Groups, entry: ChangelogEntry) -> None:
    states, bags, kinds = groups.states, groups.bags, groups.rule.plan.bags
    beside: list[tuple[dict[bytes, Any], dict[bytes, Any]]]
    beside = [(groups.closed, entry.closed), (groups.early.past, entry.past)]
    for key, state in chain(groups.of_records(entry.records), entry.states.items()):
        for known, stored in beside:
            if key in stored:
                known[key] = stored[key]
            else:
                known.pop(key, None)
        if state is None:
            states.pop(key, None)
            bags.pop(key, None)
            continue
        old = states.get(key)
        if kinds and (old is None or old[FIRST] != state[FIRST]):
            states.pop(key, None)
            bags[key] = groups.rule.plan.empty_bags()
        states[key] = state
    for source, fresh in ((entry.whole, True), (entry.added, False)):
        for key, new in source.items():
            if key not in states or len(new) != len(kinds):  # filled under an earlier rule: a later entry ends it
                continue
            if fresh:
                bags[key] = groups.rule.plan.empty_bags()
            for kind, bag, items in zip(kinds, bags[key], new, strict=True):
                with suppress(TypeError, ValueError):  # items of an earlier rule: a later entry ends that group, too
                    kind.form.extend(bag, items)


def _settle(groups: Groups) -> None:
    """After the last entry: restore the order of opening, the sizes and the deadlines, and check that each group holds
    as many items as it counted."""
    if not all(map(groups.fits, groups.states.values())):
        raise ChangelogIncomplete(
            "the state of a group does not have the fields of this rule: another program or another rule wrote it"
        )
    groups.states = dict(sorted(groups.states.items(), key=lambda item: item[1][FIRST]))
    groups.bytes = sum(state[BYTES] for state in groups.states.values())
    rule = groups.rule.aggregation
    kept = [place for place in places(rule.compute, False, merges(rule), rule.table) if place.in_bag]
    everything = [place.bag for place in kept if place.reducer.field is None]
    for key, state in groups.states.items():
        for index in everything:
            bag, wanted = groups.bags[key][index], state[ROWS] if rule.table else state[COUNT]
            if (sum(bag.values()) if rule.table else len(bag)) != wanted:
                raise ChangelogIncomplete(
                    "a group holds fewer items than it counted: an entry before the first kept one was needed"
                )
    groups.rearm()


def _all(sealed: SealedItems, fresh: Section) -> Section:
    """All sealed items, and the items that ended with this entry."""
    whole = sealed.whole()
    ended = {number: None for number, item in fresh.items.items() if item is None}
    return msgspec.structs.replace(whole, items={**ended, **whole.items})
