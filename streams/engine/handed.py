"""Rows that one process handed to its producer under an earlier claim of a partition, and has not recorded in the store.

An owner can end while its process, its producer and its broker connection live. The rows are then still in the store, so the next claim
reads them again. What this module remembers tells those rows apart from the rows that were never handed over.
"""

from typing import NamedTuple

from sluicegate.streams.values import DeadRow, OutboxRow

Out = dict[int, tuple[OutboxRow, float]]  # by number: rows without a report, and when they were handed over


class Reports:
    """Rows by number that were reported, and that no commit has recorded yet. A number may be given again under another claim, so each
    has the lineage of its row."""

    __slots__ = ("dead", "delivered")

    def __init__(self) -> None:
        self.delivered: dict[int, str] = {}
        self.dead: dict[int, tuple[str, DeadRow]] = {}

    def __bool__(self) -> bool:
        return bool(self.delivered or self.dead)

    def join(self, other: "Reports") -> None:
        self.delivered.update(other.delivered)
        self.dead.update(other.dead)


class Handed(NamedTuple):
    """What is remembered of earlier claims. Only a row that the store still holds, with the same number and lineage, is believed: another
    process may have claimed in between, or the store may have lost its last writes."""

    out: Out
    reports: Reports

    def forget(self, up_to: int) -> None:
        """The store's rows up to this number were read: what is left of them is no longer in the store."""
        for known in (self.out, self.reports.delivered, self.reports.dead):
            for number in [number for number in known if number <= up_to]:
                del known[number]

    def clear(self) -> None:
        self.out.clear()
        self.reports.delivered.clear()
        self.reports.dead.clear()
