"""The cold groups of windows: how their rows are keyed, and when they are due."""
