"""Replays of an agent's published outputs: shadow and rewind."""
