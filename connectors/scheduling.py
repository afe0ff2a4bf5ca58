"""Code that the timeout stores share: checks of a call, and errors."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from sluicegate.connectors.times import moment
from sluicegate.streams.contracts.leased_values import Timeout, TimeoutBatch
from sluicegate.streams.contracts.options import TimeoutOptions
from sluicegate.streams.errors import ConcurrencyError, PersistenceError, SystemNotReady


def check_size(batch_size: int) -> int:
    """Raises ValueError."""
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: it is at least 1")
    return batch_size


def check_zone(due_at: datetime) -> datetime:
    """Raises ValueError."""
    if due_at.tzinfo is None:
        raise ValueError("due_at of a timeout is a datetime with a time zone")
    return due_at


def recurring(batch: TimeoutBatch, options: TimeoutOptions) -> list[Timeout]:
    """The next timeout of each recurring timeout of the batch. It replaces its predecessor in the transaction that
    emits the predecessor, so no process can insert it twice. Raises SystemNotReady when no time can be computed because
    this machine does not know the zone."""
    if batch.expires_at is None:
        return []
    now = batch.expires_at - options.lease  # of the store, when it locked them
    try:
        return [timeout.following(now) for timeout in batch if timeout.every is not None]
    except ValueError as error:
        raise SystemNotReady(f"a timeout recurs at a time that is not known: {error}") from error


def set_back(timeout: Timeout, now: int) -> Timeout:
    """The timeout with its `after` counted from `now`, in microseconds since 1970."""
    assert timeout.after is not None
    return replace(timeout, due_at=moment(now) + timeout.after)


def lost(id: UUID) -> ConcurrencyError:
    return ConcurrencyError(
        f"timeout {id}: the lease ended or has another owner, or the timeout is gone; nothing was changed"
    )


def id_exists(timeouts: Sequence[Timeout]) -> PersistenceError:
    which = f"timeout {timeouts[0].id}" if len(timeouts) == 1 else f"one of the {len(timeouts)} timeouts"
    return PersistenceError(f"{which} already exists: nothing was inserted")
