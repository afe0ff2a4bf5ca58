"""When the open windows of one partition close: by the watermark, by silence, by age or by a limit."""

from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import floor, inf
from typing import Any, NamedTuple

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.durable.entry import ClockState, OriginState, PastResults
from sluicegate.streams.aggregation.events import COUNT_LOWERED, WINDOW, Closing, Fire
from sluicegate.streams.aggregation.firing import SLICE_BYTES, fired
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import BYTES, FIRST, OPENED, STALE, Bags, GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.boundaries import tumbling
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.closed import ClosedGroups
from sluicegate.streams.windows.merged import MergedClock
from sluicegate.streams.windows.near import NearGroups
from sluicegate.streams.windows.times import source
from sluicegate.streams.windows.tumbling import Span, key_of, name

SLICE = 1_000  # maximum of windows that the records of one batch close; `expire` closes the others
AT_MOST = "at_most"
LATE = "late"


class Backlog(NamedTuple):
    """The records before the offset `high`. They waited at the claim, at the owner's time `claimed`."""

    high: int
    claimed: float


class ClosingWindows(Groups):
    """Open windows, in the order in which they close. `event` is the event clock. `after` are the groups whose window
    has closed. `near` are the groups that the compiled loop finds by their keys. `closing` is the cause that closes the
    groups that fire now. `sent` is the number of bytes in the bags of all results.

    The owner reports its position (`begin`, `stands`). Three values follow from it. `caught_up`: the owner has read the
    records that waited at its claim; before that its clock closes no window. `at_end`: the owner is at the end of the
    partition, intake is not paused, and no record is in hand; only then the time without records counts as silence.
    `end_asked`: the owner's time at which a broker was asked for this end; records after it are not known.
    """

    __slots__ = (
        "_backlog",
        "_next_offset",
        "_now",
        "_order",
        "after",
        "at_end",
        "caught_up",
        "closing",
        "end_asked",
        "event",
        "may_close",
        "merged",
        "near",
        "sent",
        "tumbling",
        "window",
    )
    reason = WINDOW  # the reason of groups that event time ends

    def __init__(self, rule: Rule, window: Window, notes: bool = False) -> None:
        super().__init__(rule, notes)
        self.window, self.tumbling = window, tumbling(window)
        self.merged = MergedClock(source(window), window.idle) if window.origins else None
        self.event = self.merged or EventClock(source(window))
        self.caught_up = self.at_end = False
        self.end_asked = self._now = -inf
        self._backlog, self._next_offset = Backlog(-1, inf), -1
        # A heap of (close, first offset, name). If the close of a window moves, its entry is updated when it is due.
        self._order: list[tuple[int, int, bytes]] = []
        self.closing = ""
        self.sent = 0
        self.may_close = SLICE  # windows that the batch may still close
        self.near = NearGroups()
        self.after = ClosedGroups(self)

    def names(self, key: bytes) -> list[bytes]:
        return [name for name in self.states if key_of(name) == key]

    def obeys_clock(self) -> bool:
        """As in Groups: `at_most` ends no group before the owner has caught up."""
        return self.caught_up

    def reopen(self, key: bytes, state: GroupState, items: Bags, past: PastResults | None, timed: bool) -> None:
        super().reopen(key, state, items, past, timed)
        if key in self.closed:
            self.after.reopened(key)
            return
        self._arm(key, state)
        self._age(key, state)
        if len(self._order) > 2 * len(self.states) + STALE:
            self.rearm()

    def _age(self, key: bytes, state: GroupState) -> None:
        """Note from when the age of a group that was cold is measured."""
        if (at := self._aged_at(key)) < inf:
            heappush(self.heap, (at, key))

    @property
    def at_most(self) -> float:
        """The longest time for which a group is open on the owner's clock; infinity for no limit."""
        return inf if self.window.at_most is None else self.window.at_most

    def _aged_at(self, key: bytes) -> float:
        """The owner's time at which the group has been open for `at_most`; infinity for never."""
        return self.since(self.states[key]) + self.at_most

    def due_at(self, key: bytes) -> float:
        """As in Groups, and the time at which the group has been open for `at_most`."""
        return min(super().due_at(key), self._aged_at(key))

    def put_first(self, keys: Sequence[bytes]) -> None:
        """Does nothing: the group whose window closes next fires first when room is needed."""

    def begin(self, high: int, now: float) -> None:
        """A claim begins at the owner's time `now`. The partition ends before the offset `high`."""
        self._backlog = Backlog(high, now)

    def stands(self, offset: int, at_end: bool, now: float, asked: float) -> None:
        """The owner has read the records before `offset`. After `at_most` it no longer waits for its backlog."""
        self._next_offset, self.at_end, self.end_asked, self._now = offset, at_end, asked, now
        if not self.caught_up:
            waited = self.window.at_most is not None and now - self._backlog.claimed >= self.window.at_most
            read = at_end or 0 <= self._backlog.high <= offset
            self.caught_up = waited or (read and self.event.ended_since(self._backlog.claimed))
        self.event.look(now)

    def asks(self) -> bool:
        """Whether silence would close a window now, if a broker confirmed that no record came."""
        return self._now >= self._silence_due() > self.end_asked

    def beside(self, newest: Groups) -> None:
        """As in Groups: one watermark closes the windows of both rules."""
        if isinstance(newest, ClosingWindows) and newest.event.source == self.event.source:
            self.event, self.merged = newest.event, newest.merged
            self.rearm()

    def last_start(self) -> int | None:
        """The start of the last open window; None: none is open, or windows do not begin at fixed times."""
        return None

    @property
    def keep(self) -> float:
        """For how many milliseconds a closed window takes late records; infinity: for ever."""
        return self.after.keep

    def drop(self, key: bytes) -> tuple[GroupState, Bags]:
        self.near.pop(key_of(key), None)
        return super().drop(key)

    def fire(self, key: bytes, reason: str, now: float) -> None:
        """As in Groups. With `late: amend` the group stays after its result."""
        if reason != "limit" and self.after.stays(key):
            self.send(key, reason, now)
        else:
            super().fire(key, reason, now)

    def send(self, key: bytes, reason: str, now: float) -> None:
        """Emit the result of a group that stays."""
        state, bags = self.states[key], [bag.copy() for bag in self.bags.get(key, ())]
        self.early.revision, repeats = self.results(key) + 1, self.repeats(key)
        self.emitter.note(key, state, reason, now)
        if not repeats:
            self.emitter.let_out(key, state, bags, reason, now)
        self.after.note_result(key, self.early.revision - repeats)
        self.early.ended(key)
        self.touched[key] = state

    def finish(self, key: bytes, reason: str, by: str, now: float) -> None:
        """Fire the group for good. `by` is as in Closing."""
        self._caused(by, super().fire, key, reason, now)

    def _end_closed(self, key: bytes, reason: str, by: str, now: float) -> None:
        """End a group whose window has closed. It emits a result if no result covers its late records yet."""
        if self.closed[key][1] is None:
            self.drop(key)
        else:
            self.finish(key, reason, by, now)

    def results(self, key: bytes) -> int:
        return self.after.results(key) if key in self.closed else super().results(key)

    def repeats(self, key: bytes) -> bool:
        return key not in self.closed and super().repeats(key)

    def passed(self, start: int) -> bool:
        """Whether a window that begins then takes no record any more."""
        return self.tumbling.closes(start) + self.keep <= self.event.watermark

    def over(self, start: int) -> bool:
        """Whether the windows that begin up to then are closed, and kept no longer."""
        return self.tumbling.closes(start) + self.after.stays_for <= self.event.watermark

    def named(self, key: bytes, first: int, start: int) -> bytes:
        return name(start, key)

    def end_as(self, key: bytes, reason: str, by: str, now: float) -> None:
        """As in Groups. With `amend` the group stays only if event time, the owner's clock or a limit on its records
        ended the result."""
        stays = reason in (self.reason, COUNT_LOWERED, "manual")
        if not stays and key in self.closed:
            self._end_closed(key, reason, by, now)
        elif not stays and self.after.stays(key):
            self.finish(key, reason, by, now)
        else:
            self._caused(by, super().end_as, key, reason, by, now)

    def flush(self, key: bytes, now: float) -> None:
        if key in self.closed:
            self._end_closed(key, "manual", "", now)
        elif self.after.stays(key):
            self.finish(key, "manual", self.closing, now)
        else:
            super().flush(key, now)

    def forget(self, key: bytes, now: float) -> None:
        """As in Groups. A group whose records are all covered by a result ends without an event."""
        if self.after.covers(key):
            self.drop(key)
        else:
            super().forget(key, now)

    def judge(self) -> Sequence[tuple[bytes, str]]:
        """As in Groups, without groups whose result would be only a repetition."""
        return [(group, reason) for group, reason in super().judge() if not self.after.covers(group)]

    def complete_by_now(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        """As in Groups, without groups whose result would be only a repetition."""
        ending = super().complete_by_now(keys)
        return {group: reason for group, reason in ending.items() if not self.after.covers(group)}

    def leaves(self, group: bytes, state: GroupState) -> float:
        """The watermark from which on the group takes up no room."""
        if group in self.closed:
            return self.after.end_of(group)
        return self.closes(group, state) + self.after.stays_for

    def closes(self, group: bytes, state: GroupState) -> int:
        """The watermark that closes the window of a group."""
        return self.span(group, state).closes

    def span(self, group: bytes, state: GroupState) -> Span:
        """The window of a group."""
        raise NotImplementedError

    def ending_with(self, group: bytes) -> tuple[bytes, ...]:
        """The names of the groups that end together with this one when an operator ends it."""
        return ()

    def next_close(self) -> float:
        """The watermark that closes the next open window; infinity if none is open."""
        nearest = self._next()
        close = inf if nearest is None else nearest[0]
        return min(close, self.cold.next_close())

    def next_end(self) -> float:
        """The watermark that ends the next group; infinity if none is open."""
        ending = self.after.ending() if self.closed else None
        return self.next_close() if ending is None else min(self.next_close(), ending[0])

    def close_passed(self, now: float) -> None:
        """Close the windows that the watermark has passed, up to the number that the batch may still close."""
        self.may_close -= self._close(now, self.may_close)

    def _close(self, now: float, most: int) -> int:
        """Fire up to `most` groups whose windows the watermark closed, ordered by (end, first offset), and not many
        more bytes than SLICE_BYTES. Between them, end the groups whose late records became dead letters before the next
        window closed. Returns the number of both. While a closed window has cold groups, nothing later happens."""
        fired, enough, watermark = 0, self.sent + SLICE_BYTES, self.event.watermark
        last = min(watermark, self.cold.next_close())
        while fired < most and self.sent <= enough:
            before = min(watermark, self.next_close() - 1)
            done = self._end_passed(now, most - fired, before) if self.closed else 0
            if not (done := done or self._close_next(last, now)):
                break
            fired += done
        return fired

    def _close_next(self, last: float, now: float) -> bool:
        """Fire the group whose window closes next, if it closes at the watermark `last` or before."""
        nearest = self._next()
        if nearest is None or nearest[0] > last:
            return False
        self.close_as(nearest[1], self.event.closed_by(nearest[0]), now)
        return True

    def _makes_room(self, now: float) -> bool:
        """Fire a group whose window the watermark closed, or end one, although cold groups of earlier windows may wait.
        Returns False if there is none."""
        fires = self.close_due() and bool(self._close(now, 1) or self._close_next(self.event.watermark, now))
        return fires or bool(self.closed and self._end_passed(now, 1, self.event.watermark))

    def _end_passed(self, now: float, most: int, until: float) -> int:
        """End up to `most` groups whose late records are dead letters from a watermark up to `until` on, and not many
        more bytes than SLICE_BYTES. Returns their number."""
        many, enough = 0, self.sent + SLICE_BYTES
        while many < most and self.sent <= enough:
            ended = self.after.ending()
            if ended is None or ended[0] > until:
                break
            self.near.cut.discard(self.span(ended[1], self.states[ended[1]]).start)
            self._end_closed(ended[1], self.reason, LATE, now)
            many += 1
        return many

    def _emit_late(self, now: float, most: int) -> int:
        """Emit the results of up to `most` groups whose late records are due, as `_end_passed`. Windows that have
        closed are first."""
        many, enough = 0, self.sent + SLICE_BYTES
        while many < most and self.sent <= enough and not self.close_due():
            due = self.after.due()
            if due is None or due[0] > now:
                break
            self.close_as(due[1], LATE, now)
            many += 1
        return many

    def _next(self) -> tuple[int, bytes] | None:
        """The open group whose window closes next, and the watermark that closes it; None if none is open."""
        order, states = self._order, self.states
        while order:
            known, first, group = order[0]
            state = states.get(group)
            if state is None or state[FIRST] != first or group in self.closed:
                heappop(order)
            elif (closes := self.closes(group, state)) != known:
                heapreplace(order, (closes, first, group))
            else:
                return closes, group
        return None

    def close_as(self, group: bytes, by: str, now: float) -> None:
        self._caused(by, self.fire, group, self.reason, now)

    def _caused(self, by: str, end: Callable[..., None], *arguments: Any) -> None:
        """End a group. `by` is as in Closing."""
        self.closing = by
        try:
            end(*arguments)
        finally:
            self.closing = ""

    def close_due(self) -> bool:
        """Whether a window has closed and its group has not fired yet."""
        return self.next_end() <= self.event.watermark

    def _silence_due(self) -> float:
        """The owner's time at which silence closes a window; infinity for never."""
        idle = self.window.idle
        ready = self.caught_up or self.merged is not None  # marks report silence, and must be recent
        if idle is None or not (ready and self.at_end):
            return inf
        closes = self.next_close()
        return max(idle + closes / 1000, self.event.quiet_from(idle, closes))

    def _silence(self) -> None:
        """Move the watermark to the latest close of an open window that had been over for `idle` in real time when a
        broker was last asked for the end, and no further."""
        if self.end_asked < self._silence_due():
            return
        if any(elder.next_due() == -inf for elder in self.elders):
            return  # windows that an earlier silence closed still wait for their results
        over = self._over()
        to, ended = round(self.next_close()), []  # fractions of a millisecond may be rounded away in `over`
        while (nearest := self._next()) is not None and nearest[0] <= over:
            to = max(to, self._last_over(*nearest, over))
            ended.append(heappop(self._order))
        for entry in ended:
            heappush(self._order, entry)
        to = max([to, *self.cold.closes_by(over)])
        self.event.silent(to, self._next_offset)

    def closes_until(self) -> float:
        """The highest watermark that closes windows now."""
        silent = self.end_asked >= self._silence_due()
        return max(self.event.watermark, floor(self._over()) + 1 if silent else 0)

    def _over(self) -> float:
        """Windows that close at this watermark or before are over in real time, when silence is due."""
        return min((self.end_asked - (self.window.idle or 0.0)) * 1000, self.event.silent_until())

    def _last_over(self, closes: int, group: bytes, over: float) -> int:
        """The highest watermark up to `over` that closes a window of this group. Its next window closes at `closes`."""
        return closes

    def _age_due(self) -> float:
        """The owner's time at which the oldest group has been open for `at_most`; infinity for never."""
        if self.window.at_most is None or not self.caught_up or (oldest := self._oldest()) is None:
            return inf
        return self.since(self.states[oldest]) + self.window.at_most

    def _aged(self, now: float) -> bytes | None:
        """A group that has been open for `at_most`; None if there is none."""
        return self._oldest() if self._age_due() <= now else None

    def _oldest(self) -> bytes | None:
        """The open group that was opened first. `states` has the groups in the order in which they were opened, except
        those that were cold: `heap` has the deadlines of these."""
        states, at_most = self.states, self.window.at_most
        first = self.after.oldest_open() if self.closed else next(iter(states), None)
        while self.heap and at_most is not None:
            at, group = self.heap[0]
            if group in states and group not in self.closed and self._aged_at(group) == at:
                return group if first is None or at < self.since(states[first]) + at_most else first
            heappop(self.heap)
        return first

    def oldest(self) -> float | None:
        group = self._oldest()
        return None if group is None else float(self.states[group][OPENED])

    def next_due(self) -> float:
        """As in Groups. Immediately if a closed window waits for its result."""
        if self.close_due():
            return -inf
        late = self.after.due() if self.closed else None
        due = min(self._silence_due(), self._age_due(), self.early.next_due())
        return due if late is None else min(due, late[0])

    def expire(self, now: float, most: int) -> int:
        """Fire up to `most` groups: first the groups whose window the watermark closed, then the ones that silence
        closes, then the ones that are open for `at_most` (their windows stay open). Then emit early results, and the
        results of late records that are due."""
        enough = self.sent + SLICE_BYTES
        fired = self._close(now, most)
        if not self.close_due():
            self._silence()
            fired += self._close(now, most - fired)
        while not self.close_due() and fired < most and self.sent <= enough and (aged := self._aged(now)) is not None:
            self.close_as(aged, AT_MOST, now)
            fired += 1
        fired += self.early.tell_due(now, most - fired if not self.close_due() else 0)
        if self.closed:
            fired += self._emit_late(now, most - fired)
        self.behind = self.next_due() <= now
        return fired

    def set_back(self, now: float) -> None:
        """As in Groups. It also moves back the times from which silence is measured."""
        super().set_back(now)
        self._backlog = self._backlog._replace(claimed=min(self._backlog.claimed, now))
        self.end_asked = -inf
        if self.event.seen > now:
            self.event.saw(now)
        self.after.set_back(now)

    def open(self, key: bytes | None, record: Record, now: float) -> GroupState | None:
        state = super().open(key, record, now)
        if state is not None and key is not None:
            self._opened(key, state, now)
            self._arm(key, state)
            if len(self._order) > 2 * len(self.states) + STALE:
                self.rearm()
        return state

    def open_at(self, group: bytes, record: Record, now: float, time: int) -> GroupState | None:
        """As `open`, for a record at this time."""
        return self.open(group, record, now)

    def _opened(self, group: bytes, state: GroupState, now: float) -> None:
        """Fill the slots of a new group. Kinds of windows with more slots override this."""

    def _arm(self, group: bytes, state: GroupState) -> None:
        """Note the close of the window of a new group, or the end of one that a late record opens."""
        if group == self.after.opens:
            self.after.note_opened(group)
            return
        heappush(self._order, (self.closes(group, state), state[FIRST], group))
        if self.after.keep or self.closed:
            self.after.opened(group, state)

    def fired(self, key: bytes, state: GroupState, reason: str, now: float, values: dict[str, Any]) -> Fire:
        span, by = self.span(key, state), self.closing
        at = self.event.silent_at if by == "idle" else self._next_offset if by == AT_MOST else -1
        window = Closing(
            span.start, span.end, by, self.event.watermark, self.early.revision, at, self.window.windower.overlaps
        )
        self.sent += state[BYTES]
        revision, final = self.early.revision, self.early.is_final(reason)
        return fired(key_of(key), state, reason, now, values, window, revision, final)

    def relieve(self, record: Record, now: float, limit: str) -> bool:
        """As in Groups. Windows that the watermark closed and that still wait fire first."""
        many = len(self.states)
        while self.rule.aggregation.on_full != "fire-oldest" and self._makes_room(now):
            if len(self.states) < many:
                return True
        return super().relieve(record, now, limit)

    def fire_oldest(self, now: float) -> None:
        """Make room: fire the group whose window closes next. If the watermark has already closed it, its result is the
        same as without the limit."""
        if any(elder.states for elder in self.elders):
            super().fire_oldest(now)
        elif self.closed and not self.close_due() and self._next() is None:
            self.fire(next(iter(self.closed)), "limit", now)
        elif not self._makes_room(now) and (nearest := self._next()) is not None:
            self.fire(nearest[1], "limit", now)

    def rearm(self) -> None:
        opened = ((group, state) for group, state in self.states.items() if group not in self.closed)
        self._order = [(self.closes(group, state), state[FIRST], group) for group, state in opened]
        heapify(self._order)
        if self.heap:
            self.heap[:] = [
                (self._aged_at(group), group) for group in {key for _, key in self.heap} & self.states.keys()
            ]
            heapify(self.heap)
        self.early.rearm()
        self.after.rearm()

    def clock(self, whole: bool) -> ClockState | None:
        """As in Groups. The watermark is stored in the same entry as the state that it affected."""
        return self.event.unsaved_state(whole)

    def restore_clock(self, clock: ClockState, origins: dict[str, OriginState]) -> None:
        self.event.restore(clock)
        if clock[-1] == self.event.source:
            self.restore_origins(origins)

    def origins(self, whole: bool) -> dict[str, OriginState]:
        return {} if self.merged is None else self.merged.unsaved(whole)

    def restore_origins(self, origins: dict[str, OriginState]) -> None:
        if self.merged is not None:
            self.merged.restore_origins(origins)
