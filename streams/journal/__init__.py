"""Changelog entries for changes by operators, and the audit journal of these changes.

It imports aggregation and contracts.
"""
