"""The loop of a worker, the commits that it makes, and how a worker is put together.

It imports ownership, shared, handlers, outbox and the rooms below them.
Operations and testing import it.
"""
