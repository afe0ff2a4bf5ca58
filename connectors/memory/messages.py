"""The rows and lanes of the outbox in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from sluicegate.streams.contracts.messages import Attempt, OutboxMessage


@dataclass(slots=True)
class MessageRow:
    """`state` is pending, dispatched or dead. `number` is 0 until a claim of the lane gives the row one. Times are
    seconds since 1970."""

    seq: int
    message: OutboxMessage
    lane: int
    created_at: float
    state: str = "pending"
    attempts: int = 0
    number: int = 0
    next_attempt_at: float | None = None
    dispatched_at: float | None = None
    reason: str = ""
    holder: str = ""
    held_at: float = 0.0
    held_until: float = 0.0
    history: list[Attempt] = field(default_factory=list)


def blocked(row: MessageRow, now: float, latest: float) -> float | None:
    """The time until which the row's back-off, or its own claim, keeps it from being sent; None when it may be sent
    now. A back-off that ends after `latest` was set while the clock was ahead, and does not count. A claim that begins
    later than now was made then, too: it begins now."""
    if row.held_at > now:
        row.held_at, row.held_until = now, now + row.held_until - row.held_at
    again = row.next_attempt_at or 0.0
    until = max(again if again <= latest else 0.0, row.held_until if row.holder else 0.0)
    return until if until > now else None


@dataclass(slots=True)
class MemoryLane:
    """The pending rows of a lane. `numbered` rows are ordered by number, `waiting` rows have no number yet and are
    ordered by seq. `number` is the last number given."""

    token: str = ""
    claimed_at: float = 0.0
    expires_at: float = 0.0
    number: int = 0
    numbered: dict[int, MessageRow] = field(default_factory=dict)
    waiting: dict[int, MessageRow] = field(default_factory=dict)

    def is_free(self, token: str, now: float) -> bool:
        """A lease that begins later than now was given while the clock was ahead: it begins now."""
        if self.claimed_at > now:
            self.claimed_at, self.expires_at = now, now + self.expires_at - self.claimed_at
        return self.token in ("", token) or self.expires_at <= now

    def rows(self) -> Iterator[MessageRow]:
        return chain(self.numbered.values(), self.waiting.values())

    def forget(self, row: MessageRow) -> None:
        self.numbered.pop(row.number, None)
        self.waiting.pop(row.seq, None)

    def taken(self, limit: int, after: int, now: float, latest: float) -> tuple[Sequence[MessageRow], float | None]:
        """Give numbers to waiting rows, and return up to `limit` rows above `after`. No row behind a blocked row is
        returned; the second value is the time at which that row is free."""
        rows: list[MessageRow] = []
        for row in self.numbered.values():
            if (until := blocked(row, now, latest)) is not None:
                return rows, until
            if len(rows) == limit:
                return rows, None
            if row.number > after:
                rows.append(row)
        for row in list(islice(self.waiting.values(), limit - len(rows))):
            if (until := blocked(row, now, latest)) is not None:
                return rows, until
            self.number += 1
            row.number = self.number
            self.numbered[row.number] = self.waiting.pop(row.seq)
            rows.append(row)
        return rows, None
