"""The rows of one outbox under one claim or lease: waiting rows, rows that the producer has, and delivery reports.

A claim or a lease can end while its process, its producer and its broker connection live. The store then still holds
the rows that the producer has, so the next claim reads them again. It follows the last claim of this process: a row
that was handed over is not handed over again.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.contracts.values import DeadRow, OutboxRow
from sluicegate.streams.observe.metrics import Meter

CODE = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b")  # in the text of a broker's refusal


class UnrecordedReports:
    """Reported rows, by number, that the store has not recorded yet. Another claim may give a number again, so each has
    its `origin`."""

    __slots__ = ("dead", "delivered")

    def __init__(self) -> None:
        self.delivered: dict[int, str] = {}
        self.dead: dict[int, tuple[str, DeadRow]] = {}

    def __bool__(self) -> bool:
        return bool(self.delivered or self.dead)

    def join(self, other: "UnrecordedReports") -> None:
        self.delivered.update(other.delivered)
        self.dead.update(other.dead)


class EarlierRows(NamedTuple):
    """Rows that were handed over under earlier claims: without a report, and with one. A row counts only when the store
    still holds it with the same number and origin: another process may have claimed in between, or the store may have
    lost its last writes."""

    out: dict[int, OutboxRow]
    reports: UnrecordedReports

    def forget(self, up_to: int) -> None:
        """Forget rows up to this number: the store's rows were read so far, and these were not among them."""
        for known in (self.out, self.reports.delivered, self.reports.dead):
            for number in [number for number in known if number <= up_to]:
                del known[number]

    def clear(self) -> None:
        self.out.clear()
        self.reports.delivered.clear()
        self.reports.dead.clear()


class RowSource:
    """One source of a Sender. `waiting` rows are handed over next, in this order; `out` rows have no report yet."""

    __slots__ = ("_before", "_reports", "_taken", "heir", "left", "out", "refusal", "stops", "waiting")

    def __init__(self, stops: bool = False) -> None:
        self.stops = stops  # a refused row stays in the store, and no row is sent after it
        self.refusal = ""  # the broker's text about that row
        self.left = False  # the claim ended: nothing more is handed over
        self.heir: RowSource | None = None  # the next claim in this process
        self.waiting: deque[OutboxRow] = deque()
        self.out: dict[int, OutboxRow] = {}
        # to be recorded; being recorded by a call that is under way
        self._reports, self._taken = UnrecordedReports(), UnrecordedReports()
        self._before = EarlierRows({}, UnrecordedReports())  # under earlier claims, until the store's pages confirm it

    @property
    def unsent(self) -> int:
        """Rows in memory without a report; the store may hold more."""
        return len(self.waiting) + len(self.out)

    @property
    def remembers(self) -> bool:
        """Whether rows were handed over, under this claim or an earlier one, that the store has not recorded yet."""
        return bool(self.out or self._reports or self._taken or self._before.out or self._before.reports)

    def ready(self, now: float) -> Sequence[OutboxRow]:
        """Rows to hand over now, the first of those that wait. Raises PersistenceError."""
        return self.waiting

    def hand(self, rows: Mapping[int, OutboxRow]) -> None:
        """Note that these rows, the first waiting ones, were handed over; by number."""
        if len(rows) == len(self.waiting):
            self.waiting.clear()
        else:
            for _ in rows:
                self.waiting.popleft()
        self.out.update(rows)

    def under_way(self, row: OutboxRow) -> bool:
        """Whether the producer has this row object. If not, its delivery report changes nothing."""
        return self.out.get(row.number) is row or self._before.out.get(row.number) is row

    def delivered(self, numbers: Sequence[int]) -> int:
        """The broker has the rows with these numbers, handed over under this claim; returns how many of them were
        under way."""
        if failpoints.armed:
            for _ in numbers:
                failpoints.hit("acked-not-recorded")
        out = self.out
        ended = {number: row.lineage or row.id for number in numbers if (row := out.pop(number, None)) is not None}
        self._reports.delivered.update(ended)
        return len(ended)

    def arrived(self, rows: Sequence[OutboxRow]) -> int:
        """The broker has these rows, handed over under this claim or an earlier one; returns how many of them were
        under way."""
        if failpoints.armed:
            for _ in rows:
                failpoints.hit("acked-not-recorded")
        arrived = 0
        for out, reports in ((self.out, self._reports), (self._before.out, self._before.reports)):
            if out and arrived < len(rows):
                ended = {row.number: origin(row) for row in rows if out.get(row.number) is row}
                for number in ended:
                    del out[number]
                reports.delivered.update(ended)
                arrived += len(ended)
        return arrived

    def refused(self, row: OutboxRow, text: str, meter: Meter, log: structlog.typing.FilteringBoundLogger) -> None:
        """The broker will never take this row, which is under way: it becomes dead, or the source stops."""
        reports = self._end(row)
        meter.count("dispatch_attempts", outcome="rejected")
        if why := self.keeps(row):
            self.refusal = self.refusal or f"row {row.number} for topic {row.topic}: {text}; {why}"
            return
        meter.count("dead_rows", reason=(CODE.search(text) or ["other"])[0])
        log.error("relay.row_dead", error=text, number=row.number, id=row.id, topic=row.topic)
        if reports is not None:
            reports.dead[row.number] = origin(row), DeadRow(row.number, text, 1)

    def keeps(self, row: OutboxRow) -> str:
        """Why this refused row stays unsent and stops the source; empty: it becomes dead."""
        return "on_error.produce is stop: let the broker take it, and restart" if self.stops else ""

    def denied(self, row: OutboxRow, text: str) -> bool:
        """The topic does not take the row now. False: this source does not support that, so the delivery failed."""
        return False

    def _end(self, row: OutboxRow) -> UnrecordedReports | None:
        """The row is no longer under way; returns the reports that its report belongs to."""
        number = row.number
        if self.out.get(number) is row:
            del self.out[number]
            return self._reports
        if self._before.out.get(number) is row:
            del self._before.out[number]
            return self._before.reports
        return None

    def send_again(self) -> None:
        """The producer was replaced: rows without a report wait again, lowest first, before newer ones."""
        if not self.left:
            self.waiting.extendleft(row for _, row in sorted(self.out.items(), reverse=True))
        self.out.clear()
        self._before.out.clear()

    def take(self) -> UnrecordedReports:
        """All reports, for a call that records them."""
        if self._taken:
            self._taken.join(self._reports)
        else:
            self._taken = self._reports
        self._reports = UnrecordedReports()
        return self._taken

    def recorded_all(self) -> None:
        """The call of `take` succeeded."""
        self._taken = UnrecordedReports()

    def leave(self) -> None:
        """The claim ended: nothing more is handed over, and reports still count."""
        self.waiting.clear()
        self.left = True

    def follow(self, last: "RowSource") -> None:
        """This is a newer claim of the same source in this process: remember the rows that `last` handed over."""
        before = last._before
        for reports in (last._taken, last._reports):
            before.reports.join(reports)
        before.out.update(last.out)
        self._before = before
        last.heir = self

    def _take_over_row(self, row: OutboxRow) -> bool:
        """Take over the row, or its report, if it was handed over under an earlier claim. False: it was not."""
        number, known, before = row.number, origin(row), self._before
        if number in before.out and origin(before.out[number]) == known:
            self.out[number] = before.out.pop(number)
            return True
        if before.reports.delivered.get(number) == known:
            self._reports.delivered[number] = known
            return True
        if number in before.reports.dead and before.reports.dead[number][0] == known:
            self._reports.dead[number] = before.reports.dead[number]
            return True
        return False


def origin(row: OutboxRow) -> str:
    """Distinguishes rows with the same number: the claim that wrote the row, or, in a lane, the row's id."""
    return row.lineage or row.id
