"""Which of the records that are read count: records for another agent, and repeats of a sender or a producer, do not.

It imports aggregation and contracts.
"""
