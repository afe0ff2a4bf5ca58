"""What patches protections of windows in event time away, for `mutants.py`."""

from typing import Any

import pytest

from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.handlers import rekey
from sluicegate.streams.windows.closing import ClosingWindows
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.hopping import HoppingGroups
from sluicegate.streams.windows.marks import BEHIND
from sluicegate.streams.windows.merged import NEVER, UNKNOWN, MergedClock
from sluicegate.streams.windows.sessions import SessionGroups
from sluicegate.streams.windows.tumbling import name

Patch = pytest.MonkeyPatch


def watermark_forgotten(patch: Patch) -> None:
    """A restore begins without a watermark."""
    patch.setattr(WindowGroups, "restore_clock", lambda self, clock, origins: None)


def watermark_compacted(patch: Patch) -> None:
    """A log that was compacted does not hold the watermark."""
    clock = WindowGroups.clock
    patch.setattr(WindowGroups, "clock", lambda self, whole: None if whole else clock(self, False))


def by_batch(patch: Patch) -> None:
    """The highest time of a batch judges all of its records."""
    accept = WindowGroups.accept

    def accepts(self: Any, records: Any, now: float, left_out: Any = ()) -> None:
        for record in records:
            time = self._readable(record)
            if time is not None and record.key() is not None:
                self.event.read(time)
        accept(self, records, now, left_out)

    patch.setattr(WindowGroups, "accept", accepts)


def grace_forgotten(patch: Patch) -> None:
    """Windows close at their end."""
    tumbling = WindowGroups.__init__

    def made(self: Any, *rest: Any, **more: Any) -> None:
        tumbling(self, *rest, **more)
        self.tumbling = self.tumbling._replace(grace=0)

    patch.setattr(WindowGroups, "__init__", made)


def pane_dropped_early(patch: Patch) -> None:
    """The last window of a pane fires without it."""
    go_on = HoppingGroups._go_on

    def early(self: Any, key: bytes, start: int) -> None:
        go_on(self, key, start)
        if self.panes.get(key, [start])[0] == start + self.tumbling.every:
            self.drop(name(start + self.tumbling.every, key))

    patch.setattr(HoppingGroups, "_go_on", early)


def next_window_forgotten(patch: Patch) -> None:
    """The log does not hold that a window has fired."""
    go_on = HoppingGroups._go_on

    def unsaved(self: Any, key: bytes, start: int) -> None:
        known = set(self.touched)
        go_on(self, key, start)
        for window in [
            session for session, state in self.touched.items() if state is not None and session not in known
        ]:
            del self.touched[window]

    patch.setattr(HoppingGroups, "_go_on", unsaved)


def origins_forgotten(patch: Patch) -> None:
    """A restore knows nothing of the origins."""
    patch.setattr(WindowGroups, "restore_origins", lambda self, origins: None)


def mark_first(patch: Patch) -> None:
    """A time mark stands before the records of its commit."""
    patch.setattr(rekey, "_stands_last", lambda item: not isinstance(item, rekey.TimeMark))


def highest_origin(patch: Patch) -> None:
    """The watermark is the highest time of any origin."""

    def advanced(self: Any) -> bool:
        highest = max(time for time, _, _ in self.origins.values())
        moved, self.watermark = highest > self.watermark, max(highest, self.watermark)
        return moved

    patch.setattr(MergedClock, "_advanced", advanced)


def old_end_believed(patch: Patch) -> None:
    """What a broker said of the end of the partition before is silence."""
    stands = WindowGroups.stands
    patch.setattr(WindowGroups, "stands", lambda self, offset, end, now, asked: stands(self, offset, end, now, now))


def unknown_ignored(patch: Patch) -> None:
    """An origin that has said nothing holds nothing back."""
    patch.setattr(MergedClock, "expect", lambda self, names, topics: None)


def idle_for_ever(patch: Patch) -> None:
    """A record of an idle origin leaves it idle."""

    def read(self: Any, time: int) -> bool:
        known, state, moment = self.origins.get(self.reading, (NEVER, UNKNOWN, 0))
        self._note(self.reading, (max(known, time), BEHIND if state == UNKNOWN else state, moment))
        return bool(self._advanced())

    patch.setattr(MergedClock, "read", read)


def merged_kept_twice(patch: Patch) -> None:
    """The changelog entry of a merge does not end the sessions that went into another one."""
    join = SessionGroups._join

    def joined(self: Any, group: bytes, state: Any, others: list[bytes], now: float) -> None:
        join(self, group, state, others, now)
        for other in others:
            self.touched.pop(other, None)

    patch.setattr(SessionGroups, "_join", joined)


def closed_forgotten(patch: Patch) -> None:
    """The changelog does not tell which windows have closed."""
    patch.setattr("sluicegate.streams.aggregation.durable.changelog._chosen", lambda known, keys: {})


def dropped_at_close(patch: Patch) -> None:
    """A window that may be revised is dropped with its result."""
    patch.setattr(ClosingWindows, "send", Groups.fire)


def revision_without_id(patch: Patch) -> None:
    """A revised result has the id of the first one."""
    patch.setattr(Fire, "number", property(lambda self: self.first))
