"""Ends the groups of a shadow that timed out.

A timeout is decided from the bounds that the published results set to the owner's clock. If they leave it open, the
record's own timestamp decides, and the key's groups are uncertain.
"""

from bisect import bisect_left
from collections.abc import Sequence

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.completion import completion, deadline_of
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import FIRST, LAST, GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.outbox.rows import timestamp
from sluicegate.streams.shadow.clock import MILLISECOND, OwnerClock
from sluicegate.streams.shadow.deadlines import Deadlines
from sluicegate.streams.shadow.edges import RangeEdges
from sluicegate.streams.shadow.published import PublishedResult
from sluicegate.streams.shadow.uncertainty import Uncertainty
from sluicegate.streams.shadow.witness import LiveSpans


class ShadowTimeouts:
    """`spans` are the published groups; None where the rule ends groups otherwise. `recorded`: each timeout has a
    result."""

    def __init__(
        self,
        groups: Groups,
        limits: Aggregation,
        clock: OwnerClock,
        spans: LiveSpans | None,
        edges: RangeEdges,
        uncertain: Uncertainty,
        recorded: bool,
    ) -> None:
        self._groups, self._limits, self._clock = groups, limits, clock
        self._spans, self._edges, self._uncertain = spans, edges, uncertain
        ends = completion(limits)
        self.timed = ends.timed and not recorded
        self._deadlines = Deadlines(ends, limits.deadline)

    def expire(self, offset: int) -> None:
        """Ends the groups that surely timed out before the record at `offset`."""
        if self.timed:
            for key in self._deadlines.due(self._clock.now, lambda first: self._goes_on(first, offset)):
                self._time_out(key)

    def take(self, records: Sequence[Record], now: float) -> None:
        """Adds the records, each to the present group of its key. Raises Halt."""
        if not self.timed:
            accept(self._groups, records, now)
        elif not (self._deadlines.doubtful or self._uncertain or self._deadlines.may_time_out(self._clock.now)):
            accept(self._groups, records, now)
            self._note(records)
        else:
            for record in records:
                self._doubt(record)
                accept(self._groups, (record,), now)
                self._note((record,))

    def forget(self, key: bytes) -> None:
        """Removes the key's group, which ended for another reason."""
        self._deadlines.forget(key)

    def leave_open(self) -> None:
        """Ends the range. Groups that may have timed out are uncertain."""
        for key in self._deadlines.doubtful:
            if key in self._groups.states:
                self._uncertain.begin(key, self._groups.states[key][FIRST])

    def _goes_on(self, first: int, offset: int) -> bool:
        """Whether the published results prove that this group takes records at `offset`."""
        return self._spans is not None and self._spans.reach(first, offset)

    def _doubt(self, record: Record) -> None:
        """Decides by the record's own timestamp whether its key's group timed out before it, if that is unknown."""
        key, now = self._key_of(record), self._clock.now
        if key is None or self._edges.crosses(key):
            return
        newest = self._uncertain.newest(key)
        if newest is not None and self._deadlines.has_timed_out(newest, now):
            self._time_out(key)
            self._uncertain.resolve(key, record.offset())
        elif key in self._deadlines.doubtful and not self._goes_on(self._groups.states[key][FIRST], record.offset()):
            self._uncertain.begin(key, self._groups.states[key][FIRST])
            if self._deadlines.guess(key, now.nearest(timestamp(record))):
                self._time_out(key)
        self._uncertain.note(key, now)

    def _time_out(self, key: bytes) -> None:
        if key in self._groups.states:
            self._groups.fire(key, "timeout", self._clock.now.seconds)
            self._deadlines.forget(key)

    def _key_of(self, record: Record) -> bytes | None:
        """The key of the record; None: the rule cannot read it."""
        try:
            read = self._groups.rule.reader.read(record)
            return record.key() if self._groups.rule.key_of is None else self._groups.rule.key_of(read)
        except Exception:
            return None

    def _note(self, records: Sequence[Record]) -> None:
        """Notes the times of the groups that took these records."""
        offsets, now = [record.offset() for record in records], self._clock.now
        for key, state in self._groups.touched.items():
            if state is None:
                self._deadlines.forget(key)
                continue
            times = [timestamp(records[max(0, bisect_left(offsets, at))]) for at in (state[FIRST], state[LAST])]
            self._deadlines.note(key, state, now, *map(now.nearest, times))
        self._groups.touched.clear()

    def too_early(self, state: GroupState, live: PublishedResult) -> str:
        """The contradiction if the group cannot have timed out when its result says that it did; empty: it can."""
        rule = self._limits
        if live.opened is None or live.closed is None:
            return ""
        seen = max(live.opened, self._clock.bounds_at(state[LAST]).low) if rule.since_last else 0.0
        if rule.since_first and live.closed + MILLISECOND >= live.opened + rule.since_first:
            return ""
        if rule.since_last and live.closed + MILLISECOND >= seen + rule.since_last:
            return ""
        if rule.deadline is not None and live.closed + MILLISECOND >= deadline_of(state):
            return ""
        return "timeout before its time" if rule.timed else "timeout without a timeout"
