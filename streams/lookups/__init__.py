"""`lookup:` adds rows of the store, or of a compacted topic, to the output of an agent.

Rows of the store are read in the transaction of the commit, after the fence was checked. Rows of a topic are in memory
(docs/lookups.md). An agent without lookups uses nothing of this room.
"""
