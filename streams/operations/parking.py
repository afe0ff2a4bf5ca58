"""Parked items as a person sees them: read without a claim, and let go by a claim that commits once and leaves."""

from collections.abc import Collection
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.entry import Section
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Claim, Partition
from sluicegate.streams.handlers.sealed import SealedItem
from sluicegate.streams.journal.amending import Person, amend
from sluicegate.streams.operations.open_groups import partitions


class Parked(NamedTuple):
    """A message or completed group that its handler failed for good; `offset` is that of the message, or of the group's
    first one."""

    partition: Partition
    offset: int
    key: bytes
    attempts: int
    error: str
    kind: str


def parked(store: Store, app: str, agent: Agent) -> list[Parked]:
    """By topic, partition and offset. Raises as sluicegate.streams.operations.open_groups.partitions."""
    return [
        _seen(within.partition, item)
        for within in partitions(store, app, agent)
        for _, item in sorted(within.sealed.held.items())
        if item.state == "parked"
    ]


def _seen(partition: Partition, held: SealedItem) -> Parked:
    kind = "group" if isinstance(held.item, Fire) else "message"
    return Parked(partition, held.number, held.key, held.attempts, held.error, kind)


def retry(store: Store, partition: Partition, offsets: Collection[int], person: Person) -> Claim:
    """Let these go: their attempts begin anew. See `amend`."""
    section = Section({}, dict.fromkeys(offsets, 0), dict.fromkeys(offsets, ""))
    places = ", ".join(f"{partition.topic}/{partition.number}/{offset}" for offset in sorted(offsets))
    return amend(store, partition, person, "parked retry", places, sealed=section)
