"""Expressions of the file: a subset of CEL (the Common Expression Language), parsed, checked and evaluated.

The room is pure: it knows no Kafka, no store and no clock. A record is opaque to it: the caller gives a reader for each
name.
"""
