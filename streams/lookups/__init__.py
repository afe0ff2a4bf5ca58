"""`lookup:` rows of the store that are added to what an agent writes.

The rows are read in the transaction of the commit, after the fence was taken (docs/lookups.md). An agent without
lookups uses nothing of this room.
"""
