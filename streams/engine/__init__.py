"""The loop of a worker, the commits that it makes, and the code that builds a worker.

It imports ownership, shared, handlers, outbox and the rooms below them. Operations and testing import it.
"""
