"""Session windows: the records of a key without a pause longer than the gap.

A session lasts from the time of its first record to the time of its last record + the gap. A record joins the session
that it touches and extends it, or merges several sessions. The merged session keeps the lowest first offset. The others
end in the same changelog entry.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from msgspec.structs import replace

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.accept import add_to, admitted
from sluicegate.streams.aggregation.compiled.placing import Placing
from sluicegate.streams.aggregation.events import MERGED
from sluicegate.streams.aggregation.layout import BYTES, COUNT, FIRST, SEEN, STALE, Bags, GroupState
from sluicegate.streams.aggregation.merging import merging, pour
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.cold.sessions import ColdSessions
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.placing import in_time
from sluicegate.streams.windows.tumbling import Span, key_of, name

BEGIN, END = -2, -1
"""The last two slots of a state: the times of the first and the last record, in milliseconds since 1970."""
_OPEN_SESSIONS = """
sessions, states, gap, lasts = groups.sessions, groups.states, groups.gap, groups.lasts
"""
_BOUNDED = """
if time != last and not 0 <= time < bound:
    unproven()
"""
_FIND = """
open_sessions = sessions.get(key)
if open_sessions is None:
    key = name(record.offset(), key)
    state = None
    if time + lasts <= event.watermark or len(key) > longest or refuses(groups):
        unproven()
else:
    [key] = open_sessions
    state = states[key]
    if not state[BEGIN] - gap <= time <= state[END] + gap:
        unproven()
"""
_JOINS = """
if time > state[END]:
    state[END] = time
elif time < state[BEGIN]:
    state[BEGIN] = time
state[SEEN] = now
"""


class SessionGroups(WindowGroups):
    """The open sessions of one partition. The name of a group is the offset of the record that opened it, and its key.

    `gap` and `lasts` are in milliseconds; `lasts` is the time from the last record to the close. `at` is the time of
    the current record. `sessions` has the names of the open sessions by key. `_gathering` has the names of the sessions
    of late records. `_others` are the sessions that the current record merges into its own.
    """

    __slots__ = ("_ages", "_gathering", "_merge", "_others", "at", "gap", "lasts", "sessions")
    cold_keys = ColdSessions

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, window, notes)
        self.gap = round(1_000 * window.size)
        self.lasts = self.gap + round(1_000 * window.grace) + 1
        self._merge = merging(rule.aggregation.compute, rule.aggregation.on_missing == "ignore")
        self.sessions: dict[bytes, list[bytes]] = {}
        self._gathering: dict[bytes, list[bytes]] = {}
        self._ages: list[tuple[float, int, bytes]] = []  # a heap of (owner's time of a record, first offset, name)
        self.at = 0
        self._others: list[bytes] = []

    def span(self, group: bytes, state: GroupState) -> Span:
        return Span(state[BEGIN], state[END] + self.gap, state[END] + self.lasts)

    def closes(self, group: bytes, state: GroupState) -> int:
        closes: int = state[END] + self.lasts
        return closes

    def since(self, state: GroupState) -> float:
        seen: float = state[SEEN]
        return seen

    def _age(self, key: bytes, state: GroupState) -> None:
        self._list(key)
        heappush(self._ages, (state[SEEN], state[FIRST], key))

    # -- records

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        touched = self._touched(self.sessions, key, time)
        if late := not touched and time + self.lasts <= self.event.watermark:
            if not self.after.keep:
                self._late(record, Span(time, time + self.gap, time + self.lasts))
                return True
            self.counts["late"] += 1
            touched = self._touched(self._gathering, key, time)
        self.at = time
        group = touched[0] if touched else name(record.offset(), key)
        if late:
            self.after.opens = group
        counted = self._add(group, touched[1:], record, time, read, items, now)
        if late:
            self.after.took(record, group, now)
        return counted

    def named(self, key: bytes, first: int, start: int) -> bytes:
        return name(first, key)

    def groups_of(self, record: Record, key: bytes, time: int) -> tuple[bytes, ...]:
        touched = self._touched(self.sessions, key, time)
        return (touched[0] if touched else name(record.offset(), key),)

    def _add(
        self, group: bytes, others: list[bytes], record: Record, time: int, read: Any, items: list[Any], now: float
    ) -> bool:
        """Add the record to this session and merge the others into it. Returns False if it was refused."""
        state = admitted(self, group, record, items, now)
        if state is None:
            return False
        before = state[BEGIN], state[END], state[SEEN]
        state[BEGIN], state[END], state[SEEN] = min(before[0], time), max(before[1], time), now
        self._others = [other for other in others if other in self.states]  # one may have fired to make room
        try:
            if not add_to(self, group, state, record, read, items, now):
                state[BEGIN], state[END], state[SEEN] = before
                return False
            if self._others and self.states.get(group) is state:  # the session is still open
                self._join(group, state, now)
        finally:
            self._others = []
        return True

    def grew(self, key: bytes, state: GroupState, now: float, before: Any = None) -> None:
        """As in Groups, but only after the other sessions are merged."""
        if not self._others:
            super().grew(key, state, now, before)

    def whole(self, state: GroupState, bags: Bags) -> tuple[GroupState, Bags]:
        """As in Groups, with the sessions that the record merges."""
        if not self._others:
            return state, bags
        joined, kept = state.copy(), self.rule.plan.empty_bags()
        pour(self.rule.plan.bags, kept, bags)
        for other in self._others:
            self._merge(joined, self.states[other])
            pour(self.rule.plan.bags, kept, self.bags.get(other, []))
        return joined, kept

    def end(self, key: bytes, state: GroupState, until: bool, now: float) -> None:
        """As in Groups. If `until` is true, the sessions that the record merges end as one. If a count or a limit is
        reached without them, they stay open."""
        if until:
            self._take_in(key, state, now)
        super().end(key, state, until, now)

    def _placed(self) -> Placing:
        """The code for records of a key with at most one open session, if they join it."""
        timed = in_time(self)
        find, joins = (self._with_slots(pattern) for pattern in (_FIND, _JOINS))
        return timed._replace(
            find=timed.find + ("" if self.merged is not None else _BOUNDED) + find,
            start=timed.start + _OPEN_SESSIONS,
            opened="bound = min(bound, time + lasts)",
            joins=joins,
        )

    def _with_slots(self, pattern: str) -> str:
        """Replace the slots by indexes from the start of the state: Python reads them faster than negative indexes."""
        for name_of_slot, slot in (("BEGIN", self.width + BEGIN), ("END", self.width + END), ("SEEN", SEEN)):
            pattern = pattern.replace(f"[{name_of_slot}]", f"[{slot}]")
        return pattern

    def open_at(self, group: bytes, record: Record, now: float, time: int) -> GroupState | None:
        """As `open`, for a record at this time."""
        self.at = time
        return self.open(group, record, now)

    def _touched(self, sessions: dict[bytes, list[bytes]], key: bytes, time: int) -> list[bytes]:
        """The sessions among these that a record at this time joins, ordered by first offset. The watermark has not
        closed them, or they gather late records."""
        names, gap, states, late = [], self.gap, self.states, sessions is self._gathering
        for group in sessions.get(key, ()):
            state = states[group]
            open_still = late or state[END] + self.lasts > self.event.watermark
            if open_still and state[BEGIN] - gap <= time <= state[END] + gap:
                names.append(group)
        return sorted(names, key=lambda group: states[group][FIRST]) if len(names) > 1 else names

    def _join(self, group: bytes, state: GroupState, now: float) -> None:
        """Merge the sessions that the record touches. The merged session may then be complete."""
        records = state[COUNT]
        self._take_in(group, state, now)
        heappush(self._order, (self.closes(group, state), state[FIRST], group))
        heappush(self._ages, (state[SEEN], state[FIRST], group))
        self.touched[group] = state
        if state[COUNT] >= self.rule.completion.most:
            self.end(group, state, False, now)
        elif state[BYTES] > self.rule.aggregation.max_bytes:
            self.fire(group, "limit", now)
        if self.early.emit is not None and self.states.get(group) is state:
            self._grew_by(group, state, records - 1, now)

    def _grew_by(self, group: bytes, state: GroupState, records: int, now: float) -> None:
        """Emit an early result if one is due. `records` is the number of records before the merge."""
        early = self.early
        early.opened(group)
        if early.on_change or (early.count and state[COUNT] // early.count > records // early.count):
            early.tell(group, now)
        elif group in early.quiet:
            early.changed(group, now)

    def _note_merged(self, group: bytes, now: float) -> None:
        """Emit a last result, with the reason MERGED, for a session that had early results and becomes part of another
        one. It withdraws them."""
        results, state = self.early.results(group), self.states[group]
        if self.early.emit is None or not results or group in self.closed:
            return
        self.early.revision = results + 1
        fire = replace(self.fired(group, state, MERGED, now, {}), count=0)
        self.events.append(fire if self.rule.results is None else self.rule.results.whole(fire))

    def _take_in(self, group: bytes, state: GroupState, now: float) -> None:
        """Merge the other sessions into this one."""
        others, self._others = self._others, []
        for session in others:
            self._note_merged(session, now)
            other, bags = self.drop(session)
            self._merge(state, other)
            state[BEGIN], state[END] = min(state[BEGIN], other[BEGIN]), max(state[END], other[END])
            self._collect_all(group, state, bags)

    def _collect_all(self, group: bytes, state: GroupState, bags: Bags) -> None:
        """Append the items of another session to the items of this one."""
        for index, bag in enumerate(bags):
            for item in self.rule.plan.bags[index].form.items(bag):
                self.collect(group, state, [item if at == index else None for at in range(len(bags))])

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        state = super().open(key, record, now)
        if state is not None and key is not None:
            self._list(key)
            heappush(self._ages, (now, state[FIRST], key))
            if len(self._ages) > 2 * len(self.states) + STALE:
                self.rearm()
        return state

    def _opened(self, group: bytes, state: GroupState, now: float) -> None:
        state[BEGIN], state[END], state[SEEN] = self.at, self.at, now

    def drop(self, key: bytes) -> tuple[GroupState, Bags]:
        self._unlist(key)
        return super().drop(key)

    def unopen(self, key: bytes, state: GroupState) -> None:
        if not state[COUNT]:
            self._unlist(key)
        super().unopen(key, state)

    def _among(self, group: bytes) -> dict[bytes, list[bytes]]:
        return self._gathering if group in self.closed else self.sessions

    def _list(self, group: bytes) -> None:
        names = self._among(group).setdefault(key_of(group), [])
        if group not in names:  # `rearm` may have added it
            names.append(group)

    def _unlist(self, group: bytes) -> None:
        key, sessions = key_of(group), self._among(group)
        names = sessions[key]
        names.remove(group)
        if not names:
            del sessions[key]

    def _age_due(self) -> float:
        """As in ClosingWindows. Too early while the top of the heap belongs to an earlier record of its session."""
        if self.window.at_most is None or not self.caught_up or not self._ages:
            return float("inf")
        return self._ages[0][0] + self.window.at_most

    def _aged(self, now: float) -> bytes | None:
        ages = self._ages
        while self._age_due() <= now:
            seen, first, group = ages[0]
            state = self.states.get(group)
            if state is None or state[FIRST] != first or group in self.closed:
                heappop(ages)
            elif state[SEEN] > seen:
                heapreplace(ages, (state[SEEN], first, group))
            else:
                return group
        return None

    def rearm(self) -> None:
        super().rearm()
        self._ages = [(state[SEEN], state[FIRST], group) for group, state in self.states.items()]
        heapify(self._ages)
        self.sessions.clear()  # a running loop holds a reference to it
        self._gathering.clear()
        for group in self.states:
            self._among(group).setdefault(key_of(group), []).append(group)
