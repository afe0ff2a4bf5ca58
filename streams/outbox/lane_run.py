"""A batch of a lane as a source of the sender, and its outcomes for the store."""

from collections.abc import Sequence

from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.outbox.handed import RowSource
from sluicegate.streams.outbox.relay import SPREAD


class LaneRun(RowSource):
    """The rows of one batch, while they are sent."""

    __slots__ = ("refusals",)

    def __init__(self, rows: Sequence[OutboxRow], last: "LaneRun | None" = None) -> None:
        """`last` is the run of the lane's last batch in this process. Rows that it handed over are not handed over
        again."""
        super().__init__()
        self.refusals: dict[int, str] = {}  # the broker's text by number, for rows that their topic does not accept now
        if last is None:
            self.waiting.extend(rows)
            return
        self.follow(last)
        self.waiting.extend(row for row in rows if not self._take_over_row(row))
        if rows:
            self._before.forget(rows[-1].number)

    def stop(self) -> None:
        """Hand over no more rows."""
        self.waiting.clear()

    def denied(self, row: OutboxRow, text: str) -> bool:
        self._end(row)
        self.refusals[row.number] = text
        self.stop()  # no row may pass it
        return True

    def outcomes(self, batch: LaneBatch, failed: Sequence[Outcome]) -> Sequence[Outcome] | None:
        """The outcomes to mark; None if all rows were sent. `failed` are rows after this run that could not be handed
        over."""
        reports = self.take()
        if len(reports.delivered) == len(batch.rows):
            return None
        ordered = batch.lane >= 0
        ids = {row.number if ordered else place: row.id for place, row in enumerate(batch.rows, 1)}
        outcomes = [Outcome(ids[number], "dispatched") for number in reports.delivered]
        outcomes += [Outcome(ids[number], "rejected", dead.reason) for number, (_, dead) in reports.dead.items()]
        denied = sorted(self.refusals.items())
        if ordered and denied:  # the first one blocks the others: they did not fail themselves
            denied, failed = denied[:1], ()
        outcomes += [*failed, *(Outcome(ids[number], "failed", text) for number, text in denied)]
        return outcomes if ordered else [*outcomes, *_left(batch, outcomes)]


def _left(batch: LaneBatch, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Rows without order that were not sent. Any process may claim them at once."""
    named = {outcome.id for outcome in outcomes}
    return [Outcome(row.id, "outage") for row in batch.rows if row.id not in named]


def near(rows: Sequence[OutboxRow]) -> Sequence[OutboxRow]:
    """The rows within SPREAD of the first number, which is the window of receivers. The others are sent with a later
    batch."""
    return [row for row in rows if row.number < rows[0].number + SPREAD]
