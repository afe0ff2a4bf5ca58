"""The rows of one outbox under one claim or lease: waiting rows, rows in flight, and delivery reports.

A claim or a lease can end while its process, its producer and its broker connection continue. The next claim then reads
rows again that the producer still has. It knows what the last claim of this process handed over, and hands over no row
twice.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from sluicegate.streams import failpoints
from sluicegate.streams.contracts.values import DeadRow, OutboxRow
from sluicegate.streams.observe.metrics import Meter

CODE = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b")  # an error code in a broker's text


class UnrecordedReports:
    """Rows with a delivery report that the store has not recorded yet, by number. Another claim may use a number again,
    so each row has its `origin`."""

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
    """Rows that were handed over under earlier claims: `out` without a delivery report, `reports` with one. A row
    counts only if the store still has it with the same number and origin: another process may have claimed in between,
    or the store may have lost its last writes."""

    out: dict[int, OutboxRow]
    reports: UnrecordedReports

    def forget(self, up_to: int) -> None:
        """Forget rows up to this number: the store was read up to it and did not have them."""
        for known in (self.out, self.reports.delivered, self.reports.dead):
            for number in [number for number in known if number <= up_to]:
                del known[number]

    def clear(self) -> None:
        self.out.clear()
        self.reports.delivered.clear()
        self.reports.dead.clear()


class RowSource:
    """One source of a Sender. `waiting` rows are handed over next, in this order. `out` rows are in flight: they have
    no report yet."""

    __slots__ = ("_before", "_reports", "_taken", "claim_ended", "heir", "out", "refusal", "stops", "waiting")

    def __init__(self, stops: bool = False) -> None:
        self.stops = stops  # a refused row stays in the store, and no later row is sent
        self.refusal = ""  # the broker's text about that row
        self.claim_ended = False  # no more rows are handed over
        self.heir: RowSource | None = None  # the next claim in this process
        self.waiting: deque[OutboxRow] = deque()
        self.out: dict[int, OutboxRow] = {}
        # reports to record; reports that a running call records
        self._reports, self._taken = UnrecordedReports(), UnrecordedReports()
        self._before = EarlierRows({}, UnrecordedReports())  # of earlier claims, until the store's pages confirm it

    @property
    def unsent(self) -> int:
        """The number of rows in memory without a report. The store may have more."""
        return len(self.waiting) + len(self.out)

    @property
    def remembers(self) -> bool:
        """Whether the store has not yet recorded all rows that were handed over under this claim or an earlier one."""
        return bool(self.out or self._reports or self._taken or self._before.out or self._before.reports)

    def ready(self, now: float) -> Sequence[OutboxRow]:
        """The next rows to hand over. Raises PersistenceError."""
        return self.waiting

    def hand(self, rows: Mapping[int, OutboxRow]) -> None:
        """Note that these rows, the first waiting ones, were handed over."""
        if len(rows) == len(self.waiting):
            self.waiting.clear()
        else:
            for _ in rows:
                self.waiting.popleft()
        self.out.update(rows)

    def under_way(self, row: OutboxRow) -> bool:
        """Whether this row object is in flight. If not, its delivery report has no effect."""
        return self.out.get(row.number) is row or self._before.out.get(row.number) is row

    def delivered(self, numbers: Sequence[int]) -> int:
        """Process the delivery of rows that were handed over under this claim. Returns the number of them that were in
        flight."""
        if failpoints.armed:
            for _ in numbers:
                failpoints.hit("acked-not-recorded")
        out = self.out
        ended = {number: row.lineage or row.id for number in numbers if (row := out.pop(number, None)) is not None}
        self._reports.delivered.update(ended)
        return len(ended)

    def arrived(self, rows: Sequence[OutboxRow]) -> int:
        """Process the delivery of rows that were handed over under this claim or an earlier one. Returns the number of
        them that were in flight."""
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
        """The broker will never accept this row, which is in flight. It becomes dead, or the source stops."""
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
        """The reason why this refused row stays unsent and stops the source. Empty: it becomes dead."""
        return "on_error.produce is stop: let the broker take it, and restart" if self.stops else ""

    def denied(self, row: OutboxRow, text: str) -> bool:
        """The topic does not accept the row now. Returns False if this source does not support that, so the delivery
        failed."""
        return False

    def _end(self, row: OutboxRow) -> UnrecordedReports | None:
        """Remove the row from the rows in flight. Returns the reports to which its report belongs."""
        number = row.number
        if self.out.get(number) is row:
            del self.out[number]
            return self._reports
        if self._before.out.get(number) is row:
            del self._before.out[number]
            return self._before.reports
        return None

    def send_again(self) -> None:
        """The producer was replaced: rows in flight wait again, lowest first, before newer ones."""
        if not self.claim_ended:
            self.waiting.extendleft(row for _, row in sorted(self.out.items(), reverse=True))
        self.out.clear()
        self._before.out.clear()

    def take(self) -> UnrecordedReports:
        """Take all reports, for a call that records them."""
        if self._taken:
            self._taken.join(self._reports)
        else:
            self._taken = self._reports
        self._reports = UnrecordedReports()
        return self._taken

    def recorded_all(self) -> None:
        """The call for which `take` returned the reports succeeded."""
        self._taken = UnrecordedReports()

    def leave(self) -> None:
        """The claim ended: no more rows are handed over. Reports still count."""
        self.waiting.clear()
        self.claim_ended = True

    def follow(self, last: "RowSource") -> None:
        """This source belongs to a newer claim in this process: remember the rows that `last` handed over."""
        before = last._before
        for reports in (last._taken, last._reports):
            before.reports.join(reports)
        before.out.update(last.out)
        self._before = before
        last.heir = self

    def _take_over_row(self, row: OutboxRow) -> bool:
        """Take over the row, or its report, if it was handed over under an earlier claim. Returns False if it was
        not."""
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
    """A text that distinguishes rows with the same number: the claim that wrote the row, or, in a lane, the row's
    id."""
    return row.lineage or row.id
