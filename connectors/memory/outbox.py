"""The outbox in memory. Who calls holds the store's lock, or gets it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from connectors.sessions import MemorySession, joined
from streams.leased.lanes import LANES, lane_of
from streams.leased.messages import Attempt, OutboxMessage
from streams.leased.options import OutboxOptions


@dataclass(slots=True)
class Row:
    """`state` is pending, dispatched or dead; `number` 0 until its lane's holder gave it one. Times are seconds since 1970."""

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
    held_until: float = 0.0
    history: list[Attempt] = field(default_factory=list)


@dataclass(slots=True)
class Lane:
    token: str = ""
    expires_at: float = 0.0
    number: int = 0


class MemoryOutbox:
    """`lock` is the store's; `clock` gives seconds since 1970."""

    def __init__(self, lock: threading.RLock, clock: Callable[[], float], options: OutboxOptions) -> None:
        self._changed = threading.Condition(lock)
        self._clock, self._options = clock, options
        self._rows: dict[str, Row] = {}
        self._lanes, self._held = LANES, [Lane() for _ in range(LANES)]
        self._sequence = count(1)
        self._added = self._told = 0

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        if joined(session, MemorySession, require_transaction):
            session.values.messages += messages
        else:
            self.write(messages)

    def write(self, messages: Sequence[OutboxMessage]) -> None:
        """Add them, but for those whose id is there: the one way into the outbox."""
        with self._changed:
            for message in messages:
                if message.id not in self._rows:
                    lane = lane_of(message, self._lanes)
                    self._rows[message.id] = Row(next(self._sequence), message, lane, self._clock())
                    self._added += 1
            self._changed.notify_all()
