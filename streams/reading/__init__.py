"""Filters the records of a partition: drops records for another agent, and repeats of a sender or a producer.

It imports aggregation and contracts.
"""
