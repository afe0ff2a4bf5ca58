"""Replays of what an agent published: its shadow, and its rewind."""
