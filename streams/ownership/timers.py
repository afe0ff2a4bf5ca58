"""Adds the timeouts that handlers schedule and cancel to a commit."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec.structs import replace

from sluicegate.streams.aggregation.events import Cancelled, Event, Scheduled
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.values import Changes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def with_timers(changes: Changes, events: Sequence[Event], now: float) -> Changes:
    """Add the timeouts of these events to the changes. A commit cancels before it schedules, so a timeout that a later
    event cancels is left out. `now` is the store's time in seconds since 1970."""
    timeouts: dict[UUID, Timeout] = {}
    cancels: dict[UUID, None] = {}
    for event in events:
        if isinstance(event, Scheduled):
            timeouts.setdefault(event.id, _timeout(event, now))
        elif isinstance(event, Cancelled):
            timeouts.pop(event.id, None)
            cancels[event.id] = None
    if not timeouts and not cancels:
        return changes
    return replace(changes, timeouts=list(timeouts.values()), cancels=list(cancels))


def _timeout(event: Scheduled, now: float) -> Timeout:
    after = None if event.at else timedelta(microseconds=int(event.after * 1_000_000))
    due_at = event.at or _EPOCH + timedelta(microseconds=int((now + event.after) * 1_000_000))
    return Timeout(event.id, event.topic, due_at, event.key, event.value, event.headers, event.owner, after)
