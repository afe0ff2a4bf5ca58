"""Sluicegate: a Kafka stream processor on ordinary stores.

The packages are `sluicegate.streams` (the processor), `sluicegate.connectors` (one folder for each outside system) and
`sluicegate.schemas` (formats of messages). In the repository they are the folders `streams/`, `connectors/` and
`schemas/`, which this package links to, so that an installation has one top-level name and cannot collide with packages
of an application.
"""
