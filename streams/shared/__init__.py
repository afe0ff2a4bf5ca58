"""`scope: shared`: one buffer in the store that all workers of an agent fill, and from which each of them fires
batches.

It imports handlers, outbox, reading and the rooms below them; it does not know who owns a partition.
"""
