"""The owner of a partition: its claim, the checks before it begins, its state and commits, and why it halts.

It imports handlers, outbox, shared, journal, reading and the rooms below them. The loop that drives it is in `engine`.
"""
