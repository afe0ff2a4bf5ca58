"""The open groups of one partition: how they are opened and ended, the room that they have, and their timeouts."""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

from msgspec.structs import replace

from sluicegate.streams.aggregation.contents import LARGEST_ITEM, GroupContents
from sluicegate.streams.aggregation.durable.entry import ClockState, OriginState, PastResults
from sluicegate.streams.aggregation.early import EarlyResults
from sluicegate.streams.aggregation.events import COUNT_LOWERED, DROPPED, Fire
from sluicegate.streams.aggregation.firing import SLICE_BYTES, Emitter, fired
from sluicegate.streams.aggregation.layout import (
    BYTES,
    COUNT,
    DEADLINE,
    DEADLINE_SINCE,
    FIRST,
    OPENED,
    ROWS,
    SEEN,
    STALE,
    Bags,
    GroupState,
)
from sluicegate.streams.aggregation.links import traceparent
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.errors import BufferFull, PersistenceError

LONGEST_KEY = 256 * 1024  # bytes; it stands twice in a result


class Groups(GroupContents):
    """All open groups of one partition.

    `asked` has the groups that an operator wants to fire, with the offset of their first record. `elders` are the
    groups of earlier versions of the rule, oldest first; the limits of the partition apply to all together. `heap` has
    the deadlines, and entries of groups that have ended or have a later deadline by now. `idle` is the moment since
    which the time of the last record is stored (see Completion.due).
    """

    __slots__ = ("asked", "behind", "elders", "emitter", "heap", "idle")

    def __init__(self, rule: Rule, notes: bool = False) -> None:
        super().__init__(rule)
        self.early = EarlyResults(self, rule.aggregation.emit)
        self.emitter = Emitter(self, notes)
        self.heap: list[tuple[float, bytes]] = []
        self.elders: Sequence[Groups] = ()
        self.asked: dict[bytes, int] = {}
        self.behind = False
        self.idle = 0.0

    def clock(self, whole: bool) -> ClockState | None:
        """The event clock for the next changelog entry, if it changed since the last one or `whole` is set. None
        without windows."""
        return None

    def restore_clock(self, clock: ClockState, origins: dict[str, OriginState]) -> None:
        """Restore the event clock. Does nothing without windows."""

    def close_passed(self, now: float) -> None:
        """Close the windows that the watermark has passed. Does nothing without windows."""

    def beside(self, newest: "Groups") -> None:
        """Let these groups share the event clock of the newest groups of the partition. Does nothing without
        windows."""

    def is_open_for(self, record: Record, key: bytes, read: Any) -> bool:
        """Whether the record of this key, as the rule reads it, belongs to an open group. Raises NoTime."""
        return key in self.states

    def origins(self, whole: bool) -> dict[str, OriginState]:
        """The origins for the next changelog entry: those that changed since the last one, or all."""
        return {}

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        """Open a group for this record. None: the record was refused."""
        if key is None or len(key) > LONGEST_KEY:
            self.refuse_key(record, key, LONGEST_KEY)
            return None
        if self.cold.absent is not None and self.cold.unasked(key):
            raise PersistenceError(
                "the store was not asked for a cold group of this key; the partition is claimed again"
            )
        if self.crowded() and not self.relieve(record, now, f"max_groups {self.rule.aggregation.max_groups}"):
            return None
        offset = record.offset()
        state: GroupState = [0, offset, offset, now, None, traceparent(record), 0, *self.rule.plan.blank]
        self.states[key] = self.touched[key] = state
        if self.rule.plan.bags:
            self.bags[key] = self.rule.plan.empty_bags()
            self.added.pop(key, None)
        if self.rule.completion.timed and self.rule.completion.most > 1:
            self._wait(key, self.due(state))
        self.early.opened(key)
        return state

    def _wait(self, key: bytes, at: float) -> None:
        """Check the timeout of this group again at that moment. Early results are not rearmed here, because a record
        may be half added."""
        if len(self.heap) > 2 * len(self.states) + STALE:
            self._fill_heap()
        elif at < inf:
            heappush(self.heap, (at, key))

    def wait(self, key: bytes) -> None:
        """Check the timeout of this group, if it is open, when it is due. The row of a cold group has done so."""
        state = self.states.get(key)
        if state is not None and self.rule.completion.timed:
            self._wait(key, self.rule.completion.due(state, self.idle))

    def reopen(self, key: bytes, state: GroupState, items: Bags, past: PastResults | None, timed: bool) -> None:
        """Add a group that was cold. `items` are those of its bags: the next changelog entry has them, because the
        entry of the eviction closed the group. `timed`: its timeout may be another one than its row says."""
        self.states[key] = self.touched[key] = state
        self.bytes += state[BYTES]
        if items:
            self.bags[key] = self.rule.plan.bags_of(items)
            self.added[key] = items
        if timed:
            self.wait(key)
        if past is not None or self.early.every < inf:
            self.early.goes_on(key, past)
        completion = self.rule.completion
        if not self.rule.parts and completion.most <= state[COUNT] < completion.count:
            self.full.add(key)

    def give_deadline(self, key: bytes, state: GroupState, deadline: float, now: float) -> bool:
        """Set the deadline that the newest record gives: an instant, or a duration. Infinity removes the known
        deadline. Returns whether the group has timed out at `now`."""
        before, rule = self.rule.completion.due(state, self.idle), self.rule.aggregation.deadline
        since = None if rule is None or rule.at else state[OPENED] if rule.since == "first" else now
        state[DEADLINE_SINCE], state[DEADLINE] = (None, None) if deadline == inf else (since, deadline)
        if (at := deadline if since is None else since + deadline) < before:
            self._wait(key, at)
            return at <= now
        return before <= now and self.due(state) <= now

    def obeys_clock(self) -> bool:
        """Whether a deadline on the owner's clock ends a group now."""
        return True

    def crowded(self) -> bool:
        """Whether the partition has reached `max_groups`."""
        elders = sum(elder.number for elder in self.elders) if self.elders else 0
        count, most = self.number + self.cold.count + elders, self.rule.aggregation.max_groups
        return count >= most and count - self.cold.waiting() >= most

    def due(self, state: GroupState) -> float:
        """The moment at which this group times out, on the owner's clock; infinity for never."""
        return self.rule.completion.due(state, self.idle)

    def complete(self, key: bytes, state: GroupState, read: Any, now: float) -> None:
        """End the group after this record: by its count, by `until`, or by a limit."""
        self.end(key, state, self.rule.until is not None and self.rule.until(read), now)

    def end(self, key: bytes, state: GroupState, until: bool, now: float) -> None:
        """As `complete`, with the result of `until`."""
        if state[COUNT] >= self.rule.completion.count:
            self.fire(key, "count", now)
        elif until:
            self.fire(key, "until", now)
        else:
            self.limit(key, now)

    def limit(self, key: bytes, now: float) -> None:
        """The group has reached `max_items`: fire it, or accept no more records."""
        if self.rule.parts:
            self.fire(key, "limit", now)
        else:
            self.full.add(key)
            if not self.early.on_change:
                self.grew(key, self.states[key], now)

    def admits(self, key: bytes, state: GroupState | None, record: Record, items: list[Any], now: float) -> bool:
        """Whether the group and the partition have room for these items of the record. Fires groups to make room if
        `on_full` allows it."""
        aggregation = self.rule.aggregation
        size = self.growth(key, items)
        if self.outgrows(record, size + self.freed(key, items)):
            return False
        if state is not None and state[BYTES] + size > aggregation.max_bytes:
            if not self.rule.parts:
                return self.deny(record, f"max_bytes {aggregation.max_bytes}")
            self.fire(key, "limit", now)
        while self.bytes + size > self.most_bytes:
            if not self.relieve(record, now, f"max_buffered_bytes {aggregation.max_buffered_bytes}"):
                return False
        return True

    def outgrows(self, record: Record, size: int) -> bool:
        """Whether the record needs more bytes than any group may hold. Such a record is refused."""
        most = self.largest
        if size > most:
            self.refuse(
                record, "aggregate", "too-large", f"{size} bytes are more than a group may hold of one record ({most})"
            )
        return size > most

    @property
    def largest(self) -> int:
        """The largest number of bytes that a group may hold of one record."""
        aggregation = self.rule.aggregation
        return min(aggregation.max_bytes, aggregation.max_buffered_bytes, LARGEST_ITEM)

    def relieve(self, record: Record, now: float, limit: str) -> bool:
        """A limit of the partition is reached: fire the oldest group, or `deny`. Returns False if the record was
        refused."""
        if self.rule.aggregation.on_full != "fire-oldest":
            return self.deny(record, limit)
        self.fire_oldest(now)
        return True

    def deny(self, record: Record, limit: str) -> bool:
        """Refuse a record for which no group can make room, or halt the partition. Returns False."""
        if self.rule.aggregation.on_full == "stop":
            raise BufferFull(
                f"{limit} is reached and on_full is stop; raise the limit, or let on_full be fire-oldest or dead-letter"
            )
        self.refuse(record, "aggregate", "limit", f"{limit} is reached")
        return False

    def fire_oldest(self, now: float) -> None:
        """Make room: fire the group that was opened first, from the earliest version of the rule that has one."""
        elder = next((elder for elder in self.elders if elder.states), None)
        if elder is None:
            self.fire(next(iter(self.states)), "limit", now)
        else:
            elder.fire_oldest(now)

    @property
    def most_bytes(self) -> int:
        """The largest number of bytes in the bags of these groups. The bags of `elders` are subtracted."""
        most = self.rule.aggregation.max_buffered_bytes
        return most - sum(elder.bytes for elder in self.elders) if self.elders else most

    def fire(self, key: bytes, reason: str, now: float) -> None:
        """Close the group. Emit its result, or do what `on_timeout` requires."""
        early = self.early
        early.revision = self.results(key) + 1 if early.past or self.closed else 1
        repeats = early.emit is not None and self.repeats(key)
        state, bags = self.drop(key)
        self.emit_end(key, state, bags, reason, now, repeats)

    def time_out(self, key: bytes, state: GroupState, bags: Bags, now: float) -> None:
        """End a cold group by its timeout, without making it hot. It had no early results."""
        self.touched[key] = None
        self.early.revision = 1
        self.emit_end(key, state, bags, "timeout", now)

    def emit_end(
        self, key: bytes, state: GroupState, bags: Bags, reason: str, now: float, repeats: bool = False
    ) -> None:
        """Emit what the end of the group makes. `repeats`: its result would repeat an early one."""
        self.emitter.note(key, state, reason, now)
        if repeats:
            return
        on_timeout = self.rule.aggregation.on_timeout if reason == "timeout" else "fire"
        if on_timeout == "discard":
            self.counts["discarded"] += 1
            return
        self.emitter.let_out(key, state, bags, reason, now, on_timeout != "fire")

    def grew(self, key: bytes, state: GroupState, now: float, before: Any = None) -> None:
        """Note that the group has another record and stays open. Emit an early result if one is due. `before` are the
        computed fields without the record."""
        early = self.early
        if key in self.closed:
            return
        if early.count and not state[COUNT] % early.count:
            early.tell(key, now)
        elif key in early.quiet:
            early.changed(key, now)
        elif early.on_change and before != self.rule.computable(state, self.bags.get(key, [])):
            early.tell(key, now)

    def results(self, key: bytes) -> int:
        """The number of results that the group had."""
        return self.early.results(key)

    def repeats(self, key: bytes) -> bool:
        """Whether the last result would repeat an early one, and the file omits it."""
        emit = self.early.emit
        return emit is not None and not emit.final and self.early.has_all(key, self.states[key])

    def flush(self, key: bytes, now: float) -> None:
        """Close the group for good, and emit the records that no result covers yet."""
        self.fire(key, "manual", now)

    def end_as(self, key: bytes, reason: str, by: str, now: float) -> None:
        """Close the group with this reason. `by` is as in Closing."""
        if reason == "manual":
            self.flush(key, now)
        else:
            self.fire(key, reason, now)

    def forget(self, key: bytes, now: float) -> None:
        """Close the group for good and drop its records without a result."""
        self.early.revision = self.results(key) + 1
        state, _ = self.drop(key)
        self.emitter.note(key, state, DROPPED, now)

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        """The event of a group that ends now, with these computed fields."""
        fire = fired(key, state, reason, now, values, None, self.early.revision, self.early.is_final(reason))
        return replace(fire, count=state[ROWS]) if self.rule.aggregation.table else fire

    def ending(self, key: bytes, state: GroupState) -> Fire:
        """The group as its next result would identify it. The keys of panes have no early results."""
        self.early.revision = self.results(key) + 1
        return self.fired(key, state, "", 0.0, {})

    def next_due(self) -> float:
        """The nearest deadline on the owner's clock; infinity for none. It may be early, never late."""
        return min(self.heap[0][0] if self.heap else inf, self.early.next_due())

    def due_at(self, key: bytes) -> float:
        """The moment of the next event of this open group: its timeout, or its next early result."""
        due = self.due(self.states[key])
        return due if self.early.every == inf else min(due, self.early.due_at(key))

    def expire(self, now: float, most: int) -> int:
        """Fire up to `most` groups that are due, and not many more bytes than SLICE_BYTES. Returns their number.
        `behind` is set if more groups are due."""
        heap, states, due = self.heap, self.states, self.due
        fired = 0
        enough = self.bytes - SLICE_BYTES
        while heap and heap[0][0] <= now and fired < most and self.bytes >= enough:
            _, key = heappop(heap)
            state = states.get(key)
            if state is None:
                continue
            at = due(state)
            if at <= now:
                self.fire(key, "timeout", now)
                fired += 1
            elif at < inf:
                heappush(heap, (at, key))
        if len(heap) > 2 * len(states) + STALE:
            self.rearm()
        self.behind = bool(heap) and heap[0][0] <= now
        return fired + self.early.tell_due(now, most - fired)

    def rearm(self) -> None:
        """Rebuild the deadlines from the open groups: after a restore, or when most deadlines are stale."""
        if self.rule.completion.timed:
            self._fill_heap()
        self.early.rearm()

    def _fill_heap(self) -> None:
        self.heap = [(at, key) for key, state in self.states.items() if (at := self.due(state)) < inf]
        heapify(self.heap)

    def set_back(self, now: float) -> None:
        """The owner's time is `now`. Later times in the states were read from a clock that was ahead. They are moved
        back to `now`, so a deadline is at most its own duration away. The next commit stores the change."""
        times = [OPENED, SEEN, *([DEADLINE_SINCE] if self.rule.completion.from_data else [])]
        ahead = [key for key, state in self.states.items() if any((state[time] or 0.0) > now for time in times)]
        for key in ahead:
            state = self.touched[key] = self.states[key]
            for time in times:
                state[time] = min(state[time], now) if state[time] else state[time]
        if ahead or self.idle > now:
            self.idle = min(self.idle, now)
            self.rearm()
        if self.early.past:
            self.early.set_back(now)

    def judge(self) -> Sequence[tuple[bytes, str]]:
        """List the groups that must end after a restore and before the next record, with the reason of each.

        `count` or a limit may be lower than when the groups were filled. An operator may have asked to fire a group: it
        ends only if its first record is still the same.
        """
        asked = ((key, self.states.get(key), first) for key, first in self.asked.items())
        ending = {key: "manual" for key, state, first in asked if state is not None and state[FIRST] == first}
        return list((ending | self.complete_by_now(self.states)).items())

    def complete_by_now(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        """List the groups among these keys that have reached `count` or a limit, with the reason of each."""
        count, most = self.rule.completion.count, self.rule.completion.most
        ending = dict[bytes, str]()
        for key in keys:
            state = self.states[key]
            if state[COUNT] < most:
                continue
            if state[COUNT] >= count:
                ending[key] = "count" if state[COUNT] == count else COUNT_LOWERED
            elif self.rule.parts:
                ending[key] = "limit"
            else:
                self.full.add(key)
        return ending
