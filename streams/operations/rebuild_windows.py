"""Rebuilds a partition with tumbling windows or sessions. Pure.

The watermark follows from the records, so windows close by event time as they did before. What the owner's clock closed
is in the headers of the results: silence moved the watermark to a known time before a known record. A window that
`at_most` or a limit ended is released at the last record of its result, as any other group.

These records are not counted, and move the watermark: those that `where` leaves out, and dead letters that were refused
after their time was read.
"""

from collections.abc import Sequence
from dataclasses import replace

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events_read import as_read
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.operations.rebuild import Reach, Rebuild, Rebuilt
from sluicegate.streams.operations.rebuild_known import KnownOutputs
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.windows.groups import SLICE, WindowGroups
from sluicegate.streams.windows.sessions import SessionGroups
from sluicegate.streams.windows.tumbling_groups import TumblingGroups


class _Unending(WindowGroups):
    """Open windows that take records and end by event time alone. `latest` is the store's time, in seconds: when a
    record was read first is not known, so only a record that is ahead of this time is too far ahead."""

    __slots__ = ()
    latest: float

    def end(self, key: bytes, state: GroupState, until: bool, now: float) -> None:
        """Nothing: `Rebuild` decides it."""

    def _ahead(self, time: int, now: float) -> bool:
        return super()._ahead(time, self.latest)


class UnendingTumbling(_Unending, TumblingGroups):
    __slots__ = ("latest",)


class UnendingSessions(_Unending, SessionGroups):
    __slots__ = ("latest",)


class WindowRebuild(Rebuild):
    """As Rebuild."""

    def __init__(
        self, agent: Agent, reads: Codec, ids: IdRule | None, known: KnownOutputs, reach: Reach, latest: float
    ) -> None:
        super().__init__(agent, reads, ids, known, reach, latest)
        self._windows.latest = latest
        self._silences = sorted(known.silences, reverse=True)  # (offset, watermark), the next one last

    def _made(self, rule: Rule, notes: bool) -> Groups:
        window = rule.aggregation.window
        assert window is not None
        kind = UnendingSessions if window.kind == "session" else UnendingTumbling
        self._windows: UnendingSessions | UnendingTumbling = kind(rule, replace(window, idle=None, at_most=None), notes)
        return self._windows

    def take(self, records: Sequence[Record]) -> None:
        for record in records:
            self._fall_silent(record.offset())
            super().take([record])
            if passed := self._passed(record):
                self._windows.accept(passed, self._intake.now, {record.offset()})
                self._close()

    def _passed(self, record: Record) -> Sequence[Record]:
        """The record, if it only moves the watermark."""
        if record.offset() in self._known.timed:
            return as_read(self._windows, [record])
        return self._intake.left_out

    def _accept(self, run: Sequence[Record]) -> None:
        self._windows.accept(run, self._intake.now)
        self._close()

    def _fall_silent(self, offset: int) -> None:
        """Move the watermark as silence did before the record at this offset."""
        while self._silences and self._silences[-1][0] <= offset:
            at, watermark = self._silences.pop()
            self._windows.event.silent(watermark, at)
            self._close()

    def _close(self) -> None:
        """End the windows that the watermark has passed."""
        windows = self._windows
        while windows.next_end() <= windows.event.watermark:
            windows.expire(self._intake.now, SLICE)
        self._drain()

    def finish(self, offset: int) -> Rebuilt:
        self._fall_silent(offset)
        return super().finish(offset)
