"""Changelog entries for changes by operators, and the journal of these changes.

It imports aggregation and contracts.
"""
