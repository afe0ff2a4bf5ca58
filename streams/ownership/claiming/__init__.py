"""Decides when a partition is claimed again, and whether the records after a claim are the expected ones."""
