"""What became of a batch of the outbox, as it is marked."""

from collections.abc import Sequence

from sluicegate.streams.leased.lane_sender import Run
from sluicegate.streams.leased.messages import LaneBatch, Outcome


def outcomes_of(run: Run, held: LaneBatch, failed: Sequence[Outcome]) -> Sequence[Outcome] | None:
    """None: all was sent. `failed` are rows that could not be handed over, behind those of the run."""
    if len(run.sent) == len(held.rows):
        return None
    ordered = held.lane >= 0
    ids = {row.number if ordered else place: row.id for place, row in enumerate(held.rows, 1)}
    outcomes = [Outcome(ids[number], "dispatched") for number in run.sent]
    outcomes += [Outcome(ids[number], "rejected", text) for number, text in run.dead.items()]
    denied = sorted(run.denied.items())
    if ordered and denied:  # the first one holds up the others: they did not fail by themselves
        denied, failed = denied[:1], ()
    outcomes += [*failed, *(Outcome(ids[number], "failed", text) for number, text in denied)]
    return outcomes if ordered else [*outcomes, *_left(held, outcomes)]


def _left(held: LaneBatch, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Rows without order that nothing was done for: anybody may have them at once."""
    named = {outcome.id for outcome in outcomes}
    return [Outcome(row.id, "outage") for row in held.rows if row.id not in named]
