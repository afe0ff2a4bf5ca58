"""Sliding windows: each record of a key emits the result of the last records of the key."""
