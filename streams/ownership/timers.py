"""What handlers schedule and cancel, as the part of a commit that it is."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec.structs import replace

from sluicegate.streams.aggregation.events import Cancelled, Event, Scheduled
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.values import Changes

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def with_timers(changes: Changes, events: Sequence[Event], now: float) -> Changes:
    """The changes with what these events schedule and cancel. A commit cancels first: what one message scheduled and a
    later one cancelled is not in it. `now` is the store's time, seconds since 1970."""
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
    due_at = event.at or _EPOCH + timedelta(microseconds=int((now + event.after) * 1_000_000))
    return Timeout(event.id, event.topic, due_at, event.key, event.value, event.headers, event.owner)
