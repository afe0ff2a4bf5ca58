"""A partition's owner: its claim, the checks before it begins, its state and commits, and why it halts.

It imports handlers, outbox, shared, journal, reading and the rooms below them. The loop that turns it is in `engine`.
"""
