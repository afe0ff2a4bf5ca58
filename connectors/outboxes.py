"""What every store's outbox does around its own statements: check the call, judge a failure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.contracts.options import OutboxOptions
from sluicegate.streams.errors import ConcurrencyError

STATES = ("pending", "dispatched", "dead")
ANY_LANE = -1


def check_claim(lane: int, lanes: int, token: str, limit: int) -> None:
    """Raises ValueError for a claim that no store takes."""
    if not 0 <= lane < lanes:
        raise ValueError(f"there is no lane {lane}: the outbox has {lanes}, from 0")
    if not token:
        raise ValueError("a claim needs a token: a random text of the caller's own")
    if limit < 1:
        raise ValueError("the limit of a claim is at least 1")


def check_lanes(count: int, pending: int) -> None:
    """Raises ValueError, and ConcurrencyError while rows are pending: they lie in the lanes of the old number."""
    if count < 1:
        raise ValueError("an outbox has at least 1 lane")
    if pending:
        raise ConcurrencyError(
            f"the number of lanes cannot change while {pending} rows are pending: let them be sent or drop them first"
        )


def check_states(states: Sequence[str]) -> None:
    """Raises ValueError."""
    for state in states:
        if state not in STATES:
            raise ValueError(f"there is no state {state!r}: a row is {', '.join(STATES)}")


def outcomes_of(batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> Sequence[Outcome]:
    """One for each row: all of them were sent when nothing else is said."""
    return [Outcome(row.id, "dispatched") for row in batch.rows] if outcomes is None else outcomes


def verdict(options: OutboxOptions, kind: str, attempts: int) -> str:
    """What the attempt was, as the history says it: rejected, poison (the last one that was allowed) or transient. The
    first two leave the row dead. `attempts` counts this one, too."""
    if kind == "rejected":
        return "rejected"
    return "poison" if attempts >= options.attempts else "transient"


def at(seconds: float) -> datetime:
    """Of seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)
