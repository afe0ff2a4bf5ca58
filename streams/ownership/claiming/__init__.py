"""What decides when a partition is claimed again, and whether the records that come after a claim are its next ones."""
