"""Hopping windows: overlapping windows of one size. One begins at each multiple of `every`.

A record counts once, in its pane: the interval of `every` that contains its time. A window is the sum of its panes. It
fires when the watermark closes it. A pane stays until its last window has fired: the window that begins with the pane.
"""

from bisect import insort
from collections.abc import Collection, Iterator
from heapq import heappop, heappush, heapreplace
from math import floor
from typing import Any

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.accept import put
from sluicegate.streams.aggregation.durable.entry import PastResults
from sluicegate.streams.aggregation.early import EarlyResults
from sluicegate.streams.aggregation.events import DROPPED, WINDOW, Closing, Fire
from sluicegate.streams.aggregation.firing import fired
from sluicegate.streams.aggregation.layout import BYTES, FIRST, Bags, GroupState
from sluicegate.streams.aggregation.merging import merging, pour
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.closing import AT_MOST
from sluicegate.streams.windows.cold.panes import ColdPanes
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.times import LATEST
from sluicegate.streams.windows.tumbling import Span, key_of, name, start_of

NEXT = -1
"""The last slot of a state: the start of the next window to fire, in milliseconds since 1970. Only the oldest pane of
each key has the current value."""


class HoppingGroups(WindowGroups):
    """The panes of one partition. The name of a group is the start of the pane and its key. `panes` has the starts of
    the panes of each key, in milliseconds since 1970, ascending.

    The windows of a key fire in the order of their starts. A limit, an operator and `at_most` end all windows of the
    key at once and drop their panes. So each record is in one result for each of its windows that was open.
    """

    __slots__ = ("_merge", "panes")
    cold_keys = ColdPanes

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, window, notes)
        self.counts |= {"partly_late": 0}
        self._merge = merging(rule.aggregation.compute, rule.aggregation.on_missing == "ignore")
        self.early = EarlyResults(self, None)  # a pane has no results
        self.panes: dict[bytes, list[int]] = {}

    def span(self, group: bytes, state: GroupState) -> Span:
        """The next window to fire that contains this pane."""
        key = key_of(group)
        oldest = self.states[name(self.panes[key][0], key)]
        return self.tumbling.span(max(state[NEXT], oldest[NEXT]))

    def last_start(self) -> int | None:
        return max([*(panes[-1] for panes in self.panes.values()), *self.cold.starts], default=None)

    def is_open_for(self, record: Record, key: bytes, read: Any) -> bool:
        """As in Groups: some windows of the record are of this rule and not over."""
        pane = self.tumbling.start(self.event_time(record, read))
        last = self._last(pane)
        return pane - self.tumbling.size + self.tumbling.every <= last and not self.passed(last)

    def _last(self, pane: int) -> int:
        """The start of the last window with the pane that is of this rule, unless it has none."""
        return int(min(pane, self.tumbling.starts.last))

    def count(self, record: Record, key: bytes, time: int, read: Any, items: list[Any], now: float) -> bool:
        pane = self.tumbling.start(time)
        last = self._last(pane)
        if self.passed(last) or pane < self._unfired(key):
            self._late(record, self.tumbling.span(last))
            return True
        if self.tumbling.first_closes(pane) <= self.event.watermark:
            self.counts["partly_late"] += 1
        while (due := self._closes(key)) is not None and due <= self.event.watermark:
            self.closing = self.event.closed_by(due)
            self._fire_window(key, WINDOW, now)
            self.closing = ""
        return put(self, name(pane, key), record, read, items, now)

    def leaves(self, group: bytes, state: GroupState) -> float:
        return self.pane_closes(start_of(group))

    def pane_closes(self, start: int) -> int:
        """The watermark that closes the last window with the pane."""
        return self.tumbling.closes(self._last(start))

    def reopen(self, key: bytes, state: GroupState, items: Bags, past: PastResults | None, timed: bool) -> None:
        self._list(key)
        super().reopen(key, state, items, past, timed)

    def _closes(self, key: bytes) -> int | None:
        """The watermark that closes the next window of the key."""
        panes = self.panes.get(key)
        if panes is None:
            return None
        group = name(panes[0], key)
        return self.span(group, self.states[group]).closes

    def _next(self) -> tuple[int, bytes] | None:
        """As in ClosingWindows. Only the oldest pane of each key is considered."""
        order, states = self._order, self.states
        while order:
            known, first, group = order[0]
            state = states.get(group)
            if state is None or state[FIRST] != first or self.panes[key_of(group)][0] != start_of(group):
                heappop(order)
            elif (closes := self.span(group, state).closes) != known:
                heapreplace(order, (closes, first, group))
            else:
                return closes, group
        return None

    def _last_over(self, closes: int, group: bytes, over: float) -> int:
        """As in ClosingWindows, over all windows of the key."""
        kind, key = self.tumbling, key_of(group)
        last = self._last(kind.start(floor(over) - kind.size - kind.grace))
        begun = [min(pane, last) for pane in self.panes[key] if pane - kind.size + kind.every <= last]
        return max(closes, kind.closes(max(begun, default=last)))

    def _unfired(self, key: bytes) -> int:
        """The start of the first window of the key that has not fired, as its open panes record it. Usually the
        watermark closed the earlier windows. If `grace` was raised, the watermark can be lower than that."""
        panes = self.panes.get(key)
        if panes is None:
            return -LATEST
        start: int = self.states[name(panes[0], key)][NEXT]
        return start if start > panes[0] - self.tumbling.size + self.tumbling.every else -LATEST

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        """As in ClosingWindows. Returns None also if all windows of the pane have fired: the record is late."""
        if key is not None and start_of(key) < self._unfired(key_of(key)):
            return None
        return super().open(key, record, now)

    def _opened(self, group: bytes, state: GroupState, now: float) -> None:
        """Leave the pane out of windows that the watermark closed or that have fired."""
        pane, kind, key = start_of(group), self.tumbling, key_of(group)
        unclosed = kind.start(self.event.watermark - kind.size - kind.grace) + kind.every
        state[NEXT] = int(max(pane - kind.size + kind.every, unclosed, self._unfired(key), self.tumbling.starts.first))
        self._list(group)

    def _list(self, group: bytes) -> None:
        starts, pane = self.panes.setdefault(key_of(group), []), start_of(group)
        if pane not in starts:  # `rearm` may have added it
            insort(starts, pane)

    def fire(self, key: bytes, reason: str, now: float) -> None:
        """Fire the next window of the key of this pane. For another reason than event time, fire all windows of the
        key."""
        whole = key_of(key)
        if reason == WINDOW and self.closing != AT_MOST:
            self._fire_window(whole, reason, now)
            return
        while whole in self.panes:
            self._fire_window(whole, reason, now)

    def _fire_window(self, key: bytes, reason: str, now: float) -> None:
        """Fire the next window of a key, and drop the pane if this was its last window."""
        members, state = self._window(key)
        self.sent += sum(self.states[pane][BYTES] for pane in members)
        self.emitter.note(key, state, reason, now)
        self.emitter.let_out(key, state, self._merged(members), reason, now)
        self._go_on(key, state[NEXT])

    def _window(self, key: bytes) -> tuple[list[bytes], GroupState]:
        """The panes of the next window of a key, and its state."""
        panes = self.panes[key]
        start = self.states[name(panes[0], key)][NEXT]
        members = [name(pane, key) for pane in panes if pane < start + self.tumbling.size]
        return members, self._sum(members)

    def _sum(self, members: list[bytes]) -> GroupState:
        """The merged state of these panes."""
        state = self.states[members[0]].copy()
        for pane in members[1:]:
            self._merge(state, self.states[pane])
        return state

    def named(self, key: bytes, first: int, start: int) -> bytes:
        """The pane that contains the first record of a window."""
        return next((pane for pane in self.names(key) if self.states[pane][FIRST] == first), name(start, key))

    def ending_with(self, group: bytes) -> tuple[bytes, ...]:
        return tuple(self.names(key_of(group)))

    def names(self, key: bytes) -> list[bytes]:
        """The names of the panes of a key."""
        return [name(pane, key) for pane in self.panes.get(key, ())]

    def listed(self, key: bytes | None = None) -> Iterator[tuple[bytes, GroupState, Bags]]:
        """The windows that have not fired, by key and start. The name of a window is the name of its first pane."""
        size, every = self.tumbling.size, self.tumbling.every
        chosen = self.panes.items() if key is None else [(key, self.panes.get(key, []))]
        for one, panes in chosen:
            last = self._last(panes[-1]) if panes else 0
            starts = range(self.states[name(panes[0], one)][NEXT], last + 1, every) if panes else ()
            for start in starts:
                members = [name(pane, one) for pane in panes if start <= pane < start + size]
                if members:
                    state = self._sum(members)
                    state[NEXT] = start
                    yield members[0], state, self._merged(members)

    def _merged(self, members: list[bytes]) -> Bags:
        """The items of the panes, in the order of the panes."""
        merged = self.rule.plan.empty_bags()
        for pane in members if merged else ():
            pour(self.rule.plan.bags, merged, self.bags[pane])
        return merged

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        """As in Groups, for a window. `key` is the key of the records, because a window has several panes."""
        start, by = state[NEXT], self.closing
        at = self.event.silent_at if by == "idle" else self._next_offset if by == AT_MOST else -1
        window = Closing(start, start + self.tumbling.size, by, self.event.watermark, next=at, shared=True)
        return fired(key, state, reason, now, values, window)

    def _go_on(self, key: bytes, start: int) -> None:
        """Advance to the next window after the one with this start has fired. It begins `every` later. Drop the panes
        that have no other window of this rule."""
        panes = self.panes[key]
        while key in self.panes and (panes[0] == start or self._next_of(key, start) > self.tumbling.starts.last):
            self.drop(name(panes[0], key))
        if key not in self.panes:
            return
        group = name(panes[0], key)
        state = self.states[group]
        state[NEXT] = self._next_of(key, start)
        self.touched[group] = state
        heappush(self._order, (self.span(group, state).closes, state[FIRST], group))

    def _next_of(self, key: bytes, start: int) -> int:
        """The start of the window behind this one that has a pane of the key."""
        known: int = self.states[name(self.panes[key][0], key)][NEXT]
        return max(known, start + self.tumbling.every)

    def fire_oldest(self, now: float) -> None:
        """As in ClosingWindows. Closed windows fire first, until a pane is dropped."""
        count = len(self.states)
        while self.close_due() and len(self.states) == count:
            self._close(now, 1)
        if len(self.states) == count:
            super().fire_oldest(now)

    def forget(self, key: bytes, now: float) -> None:
        """Drop all windows of the key of this pane."""
        whole = key_of(key)
        while whole in self.panes:
            _, state = self._window(whole)
            self.emitter.note(whole, state, DROPPED, now)
            self._go_on(whole, state[NEXT])

    def heirs(self, names: Collection[bytes]) -> dict[bytes, GroupState]:
        """As in Groups: the oldest pane of a key that stays knows which windows have fired."""
        states = dict[bytes, GroupState]()
        for key in {key_of(group) for group in names}:
            panes = self.names(key)
            heir = next((pane for pane in panes if pane not in names), panes[0])
            fired_to = self.states[panes[0]][NEXT]
            if self.states[heir][NEXT] < fired_to:
                states[heir] = [*self.states[heir][:NEXT], fired_to]
        return states

    def drop(self, key: bytes) -> tuple[GroupState, Bags]:
        self._unlist(key)
        return super().drop(key)

    def unopen(self, key: bytes, state: GroupState) -> None:
        super().unopen(key, state)
        if key not in self.states:
            self._unlist(key)

    def _unlist(self, group: bytes) -> None:
        panes = self.panes[key_of(group)]
        panes.remove(start_of(group))
        if not panes:
            del self.panes[key_of(group)]

    def rearm(self) -> None:
        self.panes = {}
        for group in self.states:
            insort(self.panes.setdefault(key_of(group), []), start_of(group))
        super().rearm()
