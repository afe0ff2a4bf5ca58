"""Sliding windows: the last records of a key, at each of its records."""
