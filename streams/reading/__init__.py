"""Decides which of the records read are processed: records for another agent, and repeats of a sender or a producer,
are not.

It imports aggregation and contracts.
"""
