"""Sluicegate: collect N per key, or whatever came within T, then do something exactly once."""

from sluicegate.streams.contracts.leased_values import Entry, Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.errors import ConcurrencyError, ConfigurationError, KeyNotFoundError, PersistenceError

__all__ = [
    "ConcurrencyError",
    "ConfigurationError",
    "Entry",
    "KeyNotFoundError",
    "OutboxMessage",
    "PersistenceError",
    "Timeout",
]
