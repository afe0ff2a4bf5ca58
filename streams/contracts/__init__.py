"""The contracts between a worker and its surroundings: protocols of stores and of Kafka, and the frozen values that
they carry.

`stores` has the protocols that a worker needs, `leased` those for other programs. Connectors implement them. This room
imports no other room, only the files beside the rooms and schemas.
"""
