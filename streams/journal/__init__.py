"""Changelog entries for a person's changes, and the journal that records these changes.

It imports aggregation and contracts.
"""
