"""Parked items: listed without a claim, and retried by a claim that commits once."""

from collections.abc import Collection
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.entry import Section
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Claim, Partition
from sluicegate.streams.journal.amending import Person, amend
from sluicegate.streams.operations.open_groups import partitions


class Parked(NamedTuple):
    """A message or completed group whose handler failed for good; `offset` is the offset of the message, or of the
    first message of the group."""

    partition: Partition
    offset: int
    key: bytes
    attempts: int
    error: str
    kind: str


def parked(store: Store, app: str, agent: Agent) -> list[Parked]:
    """By topic, partition and offset. Raises as sluicegate.streams.operations.open_groups.partitions."""
    return [
        Parked(
            within.partition,
            each.number,
            each.key,
            each.attempts,
            each.error,
            "group" if isinstance(each.item, Fire) else "message",
        )
        for within in partitions(store, app, agent)
        for _, each in sorted(within.sealed.held.items())
        if each.state == "parked"
    ]


def retry(store: Store, partition: Partition, offsets: Collection[int], person: Person) -> Claim:
    """Retry these: their attempts begin anew. Raises as `amend`."""
    section = Section({}, dict.fromkeys(offsets, 0), dict.fromkeys(offsets, ""))
    places = ", ".join(f"{partition.topic}/{partition.number}/{offset}" for offset in sorted(offsets))
    return amend(store, partition, person, "parked retry", places, sealed=section)
