"""Sliding windows: each record of a key emits the result of the records in the time before it, or of the last records.

A record counts in its own window and in the windows of later records. So no result waits, and no clock of a worker
matters. A result covers the records that were read before it: a record out of order does not change a result that was
sent. Each record is a group in the changelog. The changelog does not say when a record is removed: the watermark and
the number of later records determine it, and a restore removes it again. If an operator drops the records of a key, a
restore removes all earlier ones.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from sys import maxsize
from typing import Any

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.compiled.placing import Placing
from sluicegate.streams.aggregation.contents import WEIGHT, GroupChanges
from sluicegate.streams.aggregation.durable.entry import ChangelogEntry
from sluicegate.streams.aggregation.events import WINDOW, Closing, Fire
from sluicegate.streams.aggregation.firing import fired
from sluicegate.streams.aggregation.layout import TRACE, Bags, GroupState
from sluicegate.streams.aggregation.links import traceparent
from sluicegate.streams.aggregation.merging import pour
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.expressions.typed import unproven
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.placing import in_time
from sluicegate.streams.windows.sliding.lines import NEVER, Line, Totalled, reach
from sluicegate.streams.windows.sliding.placing import in_line, totals_of
from sluicegate.streams.windows.sliding.totals import AT, KEY, READ_AT, EntryLayout, TimedState, offset_of, totals
from sluicegate.streams.windows.tumbling import Span, key_of, name, start_of


class SlidingGroups(WindowGroups):
    """The name of a group is the offset of its record and its key. `lines` has the records of each key.

    Times are in milliseconds. Records of a key are removed several at once, somewhat later than `reach` requires.
    `soon`: after a record at a time T, the first record of its key must be removed at T + `soon` at the latest.
    `_by_number`: windows are limited by a number of records. `_start` is the start of the window whose result is built.
    `fresh` has the records since the last commit. `_saved` is the number of the other records.
    `states` is made of `lines` when it is read. `torn`: `lines` must be rebuilt from `states`, which was changed.
    """

    __slots__ = (
        "_by_number",
        "_layout",
        "_made",
        "_saved",
        "_start",
        "_states",
        "_written",
        "fresh",
        "lines",
        "reach",
        "soon",
        "torn",
    )

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        self.fresh, self._saved = list[TimedState](), 0
        self._states: dict[bytes, GroupState] | None
        super().__init__(rule, window, notes)
        self.reach = reach(window)
        self.soon = self.reach.grace if window.last else self.reach.keep + self.reach.slack
        self._start, self._by_number = 0, window.last > 0
        self._layout = EntryLayout(rule.aggregation.compute, rule.aggregation.on_missing == "ignore")
        self._made = totals(self._layout, totals_of(rule, self._layout))
        self._written: TimedState | None = None
        self.lines: dict[bytes, Line] = {}
        self.torn = False

    def _placed(self) -> Placing | None:
        return in_line(self.rule, in_time(self))

    @property
    def states(self) -> dict[bytes, GroupState]:
        """As in Groups. Changes of it need `torn`."""
        if self._states is None:
            in_order = sorted((entry for line in self.lines.values() for entry in line.entries), key=offset_of)
            self._states = dict(map(self._named, in_order))
        return self._states

    @states.setter
    def states(self, states: dict[bytes, GroupState]) -> None:
        self._states, self.torn = states, True

    def _named(self, entry: TimedState) -> tuple[bytes, GroupState]:
        return name(entry[1], entry[KEY]), self._layout.state_of(entry)

    @property
    def number(self) -> int:
        return len(self.states) if self.torn else self._saved + len(self.fresh)

    @property
    def changed(self) -> bool:
        return bool(self.fresh or self.touched)

    def changes(self) -> GroupChanges:
        """As in GroupContents. A record that has bags is stored as a group, because the items are."""
        changes, fresh = super().changes(), self.fresh
        self.fresh, self._saved = [], self._saved + len(fresh)
        if self.rule.plan.bags:
            states: dict[bytes, GroupState | None] = {**dict(map(self._named, fresh)), **changes.states}
            return changes._replace(states=states)
        return changes._replace(records=fresh)

    def of_records(self, records: Sequence[Sequence[Any]]) -> Iterator[tuple[bytes, GroupState]]:
        """As in GroupContents."""
        return map(self._named, map(self._layout.checked, records))

    def unwritten(self) -> deque[bytes]:
        """As in GroupContents: the keys, of records without bags."""
        if self.rule.plan.bags:
            return super().unwritten()
        if self.torn:
            self.rearm()
        self._written = None
        return deque(self.lines)

    def write(self, names: deque[bytes], entry: ChangelogEntry, budget: int) -> int:
        """As in GroupContents. `_written` is the last record of the first key that was written, or None."""
        if self.rule.plan.bags:
            return super().write(names, entry, budget)
        if self.torn:
            self.rearm()
        spent = 0
        while names and spent < budget:
            line, weight = self.lines.get(names[0]), WEIGHT + len(names[0])
            entries = line.entries if line is not None else []
            at = 0 if line is None else line.leaving(self.event.watermark)[0]
            at = at if self._written is None else max(at, bisect_right(entries, self._written))
            some = entries[at : at + 1 + (budget - spent) // weight]
            entry.records += some
            spent += weight * len(some)
            self._written = some[-1] if at + len(some) < len(entries) else None
            if self._written is None:
                names.popleft()
        return spent

    def state_of(self, name: bytes) -> GroupState | None:
        if self.torn:
            return self.states.get(name)
        line = self.lines.get(key_of(name))
        entry = None if line is None else line.entry_of(start_of(name))
        return None if entry is None else self._layout.state_of(entry)

    def line_of(self, many: int) -> Callable[[bytes], Line | None]:
        """The function with which the compiled loop finds the line of a key. It raises Unproven if there is no room for
        as many records, or if the lines must be rebuilt."""
        if self.torn or self.bytes > self.most_bytes:
            return _unproven
        self._states = None
        others = self.cold.count + sum(elder.number for elder in self.elders)
        room = self.rule.aggregation.max_groups - others - self.number
        return self.lines.get if many <= room else _unproven

    def new_line(self, key: bytes, entry: TimedState) -> Line:
        """The line of a key whose first record is this one. The totals do not have it yet."""
        line = self.lines[key] = self._line(key, [])
        line.entries.append(entry)
        self.expect(key, line)
        return line

    @property
    def tells_plainly(self) -> bool:
        """Whether nothing is noted about a record beside its result."""
        return not self.emitter.notes and not self.emitter.faults

    @property
    def order(self) -> list[tuple[int, int, bytes]]:
        """A heap of (watermark, first offset, key): when the oldest records of a key are removed."""
        return self._order

    # -- records ---------------------------------------------------------------------------------------------------

    def _lead(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> None:
        before = self.event.watermark
        self.event.read(time)
        if not self.count(record, key, time, read, items, now):
            self.event.watermark = before
        elif self._order and self._order[0][0] <= time:
            self.close_passed(now)

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        if time + self.reach.grace < self.event.watermark:
            start = time - self.reach.size if self.window.size else time
            self._late(record, Span(start, time, time + self.reach.grace + 1))
            return True
        if self.torn:
            self.rearm()
        line = self.lines.get(key)
        if not self._has_room(record, line, items, now):
            return False
        entry = self._kept(record, key, time, read, items, now)
        if line is None or key not in self.lines:  # the line was removed to make room
            line = self.lines[key] = self._line(key, [])
        window = line.add(entry, bool(items))
        start = line.start if self._by_number else time - self.reach.size
        if not 0 <= line.due <= time + self.soon:
            self.expect(key, line)
        window[0][TRACE] = traceparent(record)
        self.tell_window(key, window[0], self._poured(key, window) if items else [], now, start)
        return True

    def tell_window(self, key: bytes, state: GroupState, bags: Bags, now: float, start: int) -> None:
        """Emit the result of the window that ends with a record, and begins at `start`."""
        self._start = start
        self.emitter.note(key, state, WINDOW, now)
        self.emitter.let_out(key, state, bags, WINDOW, now)

    def _kept(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> TimedState:
        """Store the record as a group of its own."""
        offset, plan = record.offset(), self.rule.plan
        state: GroupState = [1, offset, offset, now, None, None, 0, *plan.blank]
        state[AT] = time
        for add in plan.adders:
            add(state, read)
        if items:
            group = name(offset, key)
            self.bags[group] = plan.empty_bags()
            self.collect(group, state, items)
        entry = self._layout.entry(key, state)
        self.fresh.append(entry)
        self._states = None
        return entry

    def _line(self, key: bytes, entries: list[TimedState]) -> Line:
        return Line(self.reach, key, self._made, entries)

    def _poured(self, key: bytes, window: Totalled) -> Bags:
        """The bag items of a window, in the order of the log."""
        bags = self.rule.plan.empty_bags()
        for offset in sorted(map(offset_of, window[1])) if bags else ():
            pour(self.rule.plan.bags, bags, self.bags[name(offset, key)])
        return bags

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        """As in Groups, for the window that ends with a record. `key` is the key of the record."""
        window = Closing(self._start, state[AT], "event", self.event.watermark, own=True)
        return fired(key, state, reason, now, values, window)

    def end(self, key: bytes, state: GroupState, until: bool, now: float) -> None:
        """Does nothing: a record does not end the windows of later records."""

    # -- room ------------------------------------------------------------------------------------------------------

    def _has_room(self, record: Record, line: Line | None, items: list[Any], now: float) -> bool:
        """Whether there is room for the record, not counting records that the watermark has passed. Removes these
        records if necessary. Raises Halt."""
        rule, watermark = self.rule.aggregation, self.event.watermark
        many = 0 if line is None else len(line.entries)
        size = self.growth(None, items) if items else 0
        if size and self.outgrows(record, size):
            return False
        if line is not None and (many >= rule.max_items or line.bytes + size > rule.max_bytes):
            gone, freed = line.leaving(watermark)
            if many - gone >= rule.max_items:
                return self.relieve(record, now, f"max_items {rule.max_items}")
            if line.bytes - freed + size > rule.max_bytes:
                return self.relieve(record, now, f"max_bytes {rule.max_bytes}")
        if not self.crowded() and self.bytes + size <= self.most_bytes:
            return True
        leaving = [other.leaving(watermark) for other in self.lines.values()]
        crowd = self.number + sum(elder.number for elder in self.elders)
        if crowd - sum(many for many, _ in leaving) >= rule.max_groups:
            return self.relieve(record, now, f"max_groups {rule.max_groups}")
        if self.bytes - sum(freed for _, freed in leaving) + size > self.most_bytes:
            return self.relieve(record, now, f"max_buffered_bytes {rule.max_buffered_bytes}")
        for other in [*self.lines]:
            self._leave(other, maxsize)
        return True

    def relieve(self, record: Record, now: float, limit: str) -> bool:
        """As in Groups. Each result covers its whole window, so no record is removed early to make room."""
        return self.deny(record, limit)

    # -- records that leave ----------------------------------------------------------------------------------------

    def expect(self, key: bytes, line: Line) -> None:
        """Note the watermark at which the oldest records of the key are removed, if it is known and earlier than the
        noted one."""
        due = line.forgotten()
        if due < NEVER and not 0 <= line.due <= due:
            line.due = due
            heappush(self._order, (due, line.entries[0][1], key))

    def _next(self) -> tuple[int, bytes] | None:
        """As in ClosingWindows, for the removal of records: the watermark of the next removal, and the key."""
        if self.torn:
            self.rearm()
        order = self._order
        while order:
            known, _, key = order[0]
            line = self.lines.get(key)
            if line is None or line.due != known:
                heappop(order)
                continue
            due = line.forgotten()
            if due == known:
                return known, key
            self._postpone(key, line)
        return None

    def _close(self, now: float, most: int) -> int:
        """As in ClosingWindows: remove up to `most` records."""
        if self.torn:
            self.rearm()
        order, lines, watermark, many = self._order, self.lines, self.event.watermark, 0
        while many < most and order and order[0][0] <= watermark:
            known, _, key = order[0]
            line = lines.get(key)
            if line is not None and line.due == known:
                if line.forgotten() <= watermark:
                    many += self._leave(key, most - many)
                if key in lines:
                    self._postpone(key, line)
                    continue
            heappop(order)
        return many

    def _postpone(self, key: bytes, line: Line) -> None:
        """The first entry of `_order` is that of this key. Update it to the watermark of the next removal."""
        due = line.forgotten()
        line.due = due if due < NEVER else -1
        if line.due < 0:
            heappop(self._order)
        else:
            heapreplace(self._order, (due, line.entries[0][1], key))

    def _leave(self, key: bytes, most: int) -> int:
        """Remove up to `most` records of the key that the watermark has passed. Returns their number."""
        line = self.lines[key]
        before, gone = line.bytes, line.forget(self.event.watermark, most)
        for offset in map(offset_of, gone) if self.bags else ():
            del self.bags[name(offset, key)]
        self._states = None
        self._saved -= len(gone)
        self.bytes += line.bytes - before
        if not line.entries:
            del self.lines[key]
        return len(gone)

    def _arm(self, group: bytes, state: GroupState) -> None:
        """Does nothing: `expect` runs when the state has the time."""

    def _silence_due(self) -> float:
        return inf  # no result waits

    def set_back(self, now: float) -> None:
        self.states = self.states
        super().set_back(now)

    def drop(self, key: bytes) -> tuple[GroupState, Bags]:
        self.states = self.states
        return super().drop(key)

    def forget_older(self, dropped: Sequence[bytes]) -> None:
        """As in GroupContents: the earlier records of these keys. With `last`, the dropped records had pushed them out
        of the windows."""
        keys = {key_of(group) for group in dropped}
        for group in [group for group in self.states if key_of(group) in keys]:
            del self.states[group]
            self.bags.pop(group, None)

    def fire(self, key: bytes, reason: str, now: float) -> None:
        """Remove the record without a result: it already had one."""
        if key in self.states:
            self.drop(key)

    def forget(self, key: bytes, now: float) -> None:
        self.fire(key, WINDOW, now)

    def end_as(self, key: bytes, reason: str, by: str, now: float) -> None:
        """Does nothing: a result ends no group."""

    def judge(self) -> Sequence[tuple[bytes, str]]:
        """As in Groups. No rule ends a record, so the list is empty."""
        return []

    def rearm(self) -> None:
        entries = defaultdict[bytes, list[TimedState]](list)
        for group, state in self.states.items():
            key = key_of(group)
            entries[key].append(self._layout.entry(key, state))
        self.lines, self._order, self.torn, self._states = {}, [], False, None
        self._saved, self.bytes = -len(self.fresh), 0
        for key, own in entries.items():
            line = self.lines[key] = self._line(key, sorted(own))
            self._saved += len(own)
            self.bytes += line.bytes
            self._leave(key, maxsize)
            if line.entries and (due := line.forgotten()) < NEVER:
                line.due = due
                self._order.append((due, line.entries[0][1], key))
        heapify(self._order)

    def oldest(self) -> float | None:
        if self.torn:
            self.rearm()
        return min((float(line.entries[0][READ_AT]) for line in self.lines.values()), default=None)

    # -- for operators ---------------------------------------------------------------------------------------------

    def span(self, group: bytes, state: GroupState) -> Span:
        """The window of the record. `closes` is the watermark at which the record expires at the latest; NEVER for
        windows without a size."""
        time, line = state[AT], self.lines.get(key_of(group))
        start = time - self.reach.size
        if self.window.last:
            start = time if line is None else line.begins((time, start_of(group)))
        return Span(start, time, min(time + self.reach.keep, NEVER))

    def leaves(self, group: bytes, state: GroupState) -> float:
        return self.span(group, state).closes

    def is_open_for(self, record: Record, key: bytes, read: Any) -> bool:
        self.event_time(record, read)
        return False  # each record is a new group

    def names(self, key: bytes) -> list[bytes]:
        if self.torn:
            self.rearm()
        line = self.lines.get(key)
        return [] if line is None else sorted(name(offset, key) for offset in map(offset_of, line.entries))

    def groups_of(self, record: Record, key: bytes, time: int) -> tuple[bytes, ...]:
        return (name(record.offset(), key),)

    def named(self, key: bytes, first: int, start: int) -> bytes:
        return name(first, key)

    def ending_with(self, group: bytes) -> tuple[bytes, ...]:
        key = key_of(group)
        line = self.lines[key]
        return tuple(name(offset, key) for offset in map(offset_of, line.entries))

    def current(self) -> Mapping[bytes, GroupState]:
        if self.torn:
            self.rearm()
        stay = ((line, line.leaving(self.event.watermark)[0]) for line in self.lines.values())
        return dict(self._named(entry) for line, gone in stay for entry in line.entries[gone:])

    def listed(self, key: bytes | None = None) -> Iterator[tuple[bytes, GroupState, Bags]]:
        """The newest window of this key, or of each key, with the name of its last record."""
        if self.torn:
            self.rearm()
        for one in self.lines if key is None else self.lines.keys() & {key}:
            state, entries = self.lines[one].window
            yield name(entries[-1][1], one), state, self._poured(one, (state, entries))


def _unproven(key: bytes) -> None:
    unproven()
