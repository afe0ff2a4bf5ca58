"""Code that the outboxes of all stores share: checks of a call, and the outcome of a failed attempt."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from sluicegate.streams.contracts.lanes import MOST_LANES, first_lane, lane_of
from sluicegate.streams.contracts.messages import LaneBatch, OutboxMessage, Outcome
from sluicegate.streams.contracts.options import OutboxOptions
from sluicegate.streams.errors import ConcurrencyError

if TYPE_CHECKING:
    from sluicegate.streams.contracts.lane_row import LaneRow  # loads msgspec, which `import streams` does not

STATES = ("pending", "dispatched", "dead")
ANY_LANE = -1


class Space(NamedTuple):
    """The part of a store's outbox that belongs to one app, or to no app. Its lanes have the numbers from `base` on.
    Where the messages of all apps are stored together, ids begin with `prefix`."""

    app: str
    base: int
    prefix: str

    def lane_of(self, message: "OutboxMessage | LaneRow", count: int) -> int:
        """The number of the message's lane."""
        return self.base + lane_of(message, count)

    @property
    def end(self) -> int:
        """The number after the last lane."""
        return self.base + MOST_LANES

    def numbers(self, count: int) -> Sequence[int]:
        return range(self.base, self.base + count)


def space_of(app: str) -> Space:
    """The space of the app. Without an app the lanes have the numbers from 0 on, as in versions without apps."""
    if not app:
        return Space("", 0, "")
    return Space(app, first_lane(app), f"{app}\x1f")


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
    """One outcome for each row. `outcomes` None: all rows were dispatched."""
    return [Outcome(row.id, "dispatched") for row in batch.rows] if outcomes is None else outcomes


def verdict(options: OutboxOptions, kind: str, attempts: int) -> str:
    """The outcome of a failed attempt in the history: rejected, poison (the last attempt) or transient. Rejected and
    poison leave the row dead. `attempts` includes this attempt."""
    if kind == "rejected":
        return "rejected"
    return "poison" if attempts >= options.attempts else "transient"


def lane_lost(lane: int) -> ConcurrencyError:
    return ConcurrencyError(f"lane {lane} of the outbox has another holder now; nothing was marked")


def datetime_of(seconds: float) -> datetime:
    """The datetime of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)
