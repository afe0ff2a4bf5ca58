"""Sluicegate: collect N per key, or whatever came within T, then do something exactly once."""

from streams.errors import ConcurrencyError, ConfigurationError, KeyNotFoundError, PersistenceError
from streams.leased.messages import OutboxMessage
from streams.leased.values import Entry, Timeout

__all__ = ["ConcurrencyError", "ConfigurationError", "Entry", "KeyNotFoundError", "OutboxMessage", "PersistenceError", "Timeout"]

__version__ = "0.1.0"
