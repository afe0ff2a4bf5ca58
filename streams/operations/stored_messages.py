"""Rows of the outbox and scheduled timeouts, in the form that commands and the console show."""

from datetime import datetime

from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import StoredMessage


def timeout_document(timeout: Timeout) -> dict[str, object]:
    """A scheduled timeout as JSON, without its value."""
    return {
        "id": str(timeout.id),
        "due_at": timeout.due_at.isoformat(timespec="milliseconds"),
        "destination": timeout.destination,
        "key": None if timeout.key is None else timeout.key.decode(errors="replace"),
        "owner": timeout.owner,
        "every": timeout.every,
    }


def message_document(row: StoredMessage) -> dict[str, object]:
    """A row of the outbox as JSON, without its value and headers."""
    message = row.message
    return {
        "id": message.id,
        "state": row.state,
        "topic": message.topic,
        "key": text_of(message.key),
        "lane": row.lane,
        "attempts": row.attempts,
        "created_at": time_text(row.created_at),
        "dispatched_at": time_text(row.dispatched_at),
        "next_attempt_at": time_text(row.next_attempt_at),
        "reason": row.reason,
    }


def text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def time_text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="milliseconds")
