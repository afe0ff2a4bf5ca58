"""Correlations: one result of the records of several topics that have the same key, or of those that came in time.

`groups.py` has the groups of a partition. The records come from one internal topic, to which one agent for each leg
re-keys them (sluicegate.streams.handlers.rekey).
"""
