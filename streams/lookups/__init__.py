"""`lookup:` rows of the store, or of a compacted topic, that are added to what an agent writes.

Rows of the store are read in the transaction of the commit, after the fence was taken; those of a topic are in memory
(docs/lookups.md). An agent without
lookups uses nothing of this room.
"""
