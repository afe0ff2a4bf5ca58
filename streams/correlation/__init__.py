"""Correlations: one result for the records of several topics that have the same key. A leg without a record in time is
absent.

`groups.py` has the groups of a partition. The records come from one internal topic. One agent for each leg re-keys them
to it (sluicegate.streams.handlers.rekey).
"""
