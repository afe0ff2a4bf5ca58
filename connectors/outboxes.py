"""What the outboxes of all stores share: checks of a call, and the verdict on a failed attempt."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sluicegate.streams.contracts.messages import LaneBatch, Outcome
from sluicegate.streams.contracts.options import OutboxOptions
from sluicegate.streams.errors import ConcurrencyError

STATES = ("pending", "dispatched", "dead")
ANY_LANE = -1


def check_claim(lane: int, lanes: int, token: str, limit: int) -> None:
    """Raises ValueError."""
    if not 0 <= lane < lanes:
        raise ValueError(f"there is no lane {lane}: the outbox has {lanes}, from 0")
    if not token:
        raise ValueError("a claim needs a token: a random text of the caller's own")
    if limit < 1:
        raise ValueError("the limit of a claim is at least 1")


def check_lanes(count: int, pending: int) -> None:
    """Raises ValueError, and ConcurrencyError while rows are pending: their lanes follow from the old number."""
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
    """One outcome for each row; `outcomes` None: all rows were dispatched."""
    return [Outcome(row.id, "dispatched") for row in batch.rows] if outcomes is None else outcomes


def verdict(options: OutboxOptions, kind: str, attempts: int) -> str:
    """The outcome of a failed attempt in the history: rejected, poison (the last attempt) or transient. The first two
    leave the row dead. `attempts` counts this one, too."""
    if kind == "rejected":
        return "rejected"
    return "poison" if attempts >= options.attempts else "transient"


def lane_lost(lane: int) -> ConcurrencyError:
    return ConcurrencyError(f"lane {lane} of the outbox has another holder now; nothing was marked")


def at(seconds: float) -> datetime:
    """The time of seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)
