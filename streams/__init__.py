"""Sluicegate: collect N per key, or whatever came within T, then do something exactly once."""

from sluicegate.streams.errors import ConcurrencyError, ConfigurationError, KeyNotFoundError, PersistenceError
from sluicegate.streams.leased.messages import OutboxMessage
from sluicegate.streams.leased.values import Entry, Timeout

__all__ = ["ConcurrencyError", "ConfigurationError", "Entry", "KeyNotFoundError", "OutboxMessage", "PersistenceError", "Timeout"]

__version__ = "0.1.0"
