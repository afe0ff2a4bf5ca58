"""What patches a protection of cold groups away, for `mutants.py`."""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any

import pytest

from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.durable.entry import ColdState
from sluicegate.streams.aggregation.durable.paging import Paging, RowChanges
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.ownership.claiming.takeover import Takeover
from sluicegate.streams.ownership.paged import ColdReads
from sluicegate.streams.windows.cold.starts import ColdWindows

Patch = pytest.MonkeyPatch


def _moves(patch: Patch, change: Callable[[Paging, RowChanges], RowChanges]) -> None:
    moved = Paging.moved
    patch.setattr(Paging, "moved", lambda self, now: change(self, moved(self, now)))


def not_cut(patch: Patch) -> None:
    """The row of an evicted group is written, and the changelog still has the group."""

    def change(paging: Paging, moved: RowChanges) -> RowChanges:
        for row in moved.put:
            del paging._groups.touched[row.key]
        return moved

    _moves(patch, change)


def no_row(patch: Patch) -> None:
    """The changelog says that a group is gone, and there is no row of it."""
    _moves(patch, lambda paging, moved: moved._replace(put=()))


def not_deleted(patch: Patch) -> None:
    """The row of a group that ended stays."""
    _moves(patch, lambda paging, moved: moved._replace(drop=(), due=()))


def no_deadline(patch: Patch) -> None:
    """A row does not have the deadline of its group."""
    _moves(patch, lambda paging, moved: moved._replace(put=[row._replace(due=None) for row in moved.put]))


def unnoticed(patch: Patch) -> None:
    """The owner does not notice that a row has an earlier deadline than the others."""
    moved = Paging.moved

    def late(self: Paging, now: float) -> RowChanges:
        nearest, rows = self.nearest, moved(self, now)
        self.nearest = nearest
        return rows

    patch.setattr(Paging, "moved", late)


def not_looked_up(patch: Patch) -> None:
    """The store is not asked for the groups of a batch."""

    def absent(self: ColdReads, records: Sequence[Record], now: float) -> Iterator[Sequence[Record]]:
        self._groups.cold.absent = None
        yield records

    patch.setattr(ColdReads, "look_up", absent)


def not_judged(patch: Patch) -> None:
    """Cold groups keep the deadlines of an earlier rule."""

    def judge(self: ColdReads, now: float) -> Iterator[None]:
        return iter(())

    patch.setattr(ColdReads, "judge", judge)


def left_behind(patch: Patch) -> None:
    """Cold groups stay where they are when the partition changes to another version."""

    def stay(self: Takeover) -> Iterator[None]:
        return iter(())

    patch.setattr(Takeover, "_heat", stay)


def not_restored(patch: Patch) -> None:
    """A restore does not tell that groups are cold."""

    def forgotten(self: Paging, state: ColdState) -> None:
        return

    patch.setattr(Paging, "restore", forgotten)


def rows_not_restored(patch: Patch) -> None:
    """A takeover does not know that hot groups may have rows."""
    patch.setattr(Paging, "restored", lambda self: setattr(self, "_stale", False))


def not_compacted(patch: Patch) -> None:
    """Compaction drops what tells that groups are cold."""
    complete = Changelog._complete

    def forgotten(self: Changelog, parts: Any, entry: changelog.ChangelogEntry, senders: Any) -> None:
        complete(self, parts, entry, senders)
        entry.cold = None

    patch.setattr(Changelog, "_complete", forgotten)


def waits_for_the_clock(patch: Patch) -> None:
    """Deadlines that were computed under a clock that was ahead stay."""
    moved = Paging.moved

    def timeless(self: Paging, now: float) -> RowChanges:
        rows = moved(self, now)
        self.at = 0.0
        return rows

    patch.setattr(Paging, "moved", timeless)


def starts_not_restored(patch: Patch) -> None:
    """A takeover does not know which windows have cold groups."""
    restore = Paging.restore

    def forgotten(self: Paging, state: ColdState) -> None:
        restore(self, state)
        self._groups.cold.starts = {}

    patch.setattr(Paging, "restore", forgotten)


def cold_unseen(patch: Patch) -> None:
    """Only windows with hot groups are over."""
    patch.setattr(ColdWindows, "next_close", lambda self: inf)


def older_clock_not_compacted(patch: Patch) -> None:
    """A compacted log does not have the watermark of the rule before."""
    complete = Changelog._complete

    def forgotten(self: Changelog, parts: Any, entry: changelog.ChangelogEntry, senders: Any) -> None:
        complete(self, {}, entry, senders)

    patch.setattr(Changelog, "_complete", forgotten)


def closes_not_restored(patch: Patch) -> None:
    """A takeover does not ask when the next cold session closes."""
    restore = Paging.restore

    def forgotten(self: Paging, state: ColdState) -> None:
        restore(self, state)
        self._groups.cold.closes = inf

    patch.setattr(Paging, "restore", forgotten)
