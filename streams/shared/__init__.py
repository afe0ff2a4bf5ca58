"""`scope: shared`: all workers of an agent fill one buffer in the store, and each worker fires batches from it.

It imports handlers, outbox, reading and the rooms below them. It does not know the owners of partitions.
"""
