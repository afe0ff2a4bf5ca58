"""Changelog entries for a person's changes, and the journal of these changes.

It imports aggregation and contracts.
"""
