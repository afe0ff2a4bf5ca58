"""Sluicegate: collect N per key, or whatever came within T, then do something exactly once."""

__version__ = "0.1.0"
