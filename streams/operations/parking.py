"""Parked items: listed without a claim, and retried by a claim that commits once."""

from collections.abc import Collection
from typing import NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.durable.entry import Section
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.contracts.ids import in_order
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Claim, GroupNumber, Partition
from sluicegate.streams.journal.amending import Person, amend
from sluicegate.streams.operations.groups.contents import partitions


class Parked(NamedTuple):
    """A message or completed group whose handler failed for good."""

    partition: Partition
    number: GroupNumber
    key: bytes
    attempts: int
    error: str
    kind: str

    @property
    def offset(self) -> int:
        """The offset of the message, or of the first message of the group. Several windows may begin with the same
        message."""
        return in_order(self.number)[0]


def parked(store: Store, app: str, agent: Agent) -> list[Parked]:
    """The parked items by topic, partition and offset. Raises as
    sluicegate.streams.operations.groups.open_groups.partitions."""
    return [
        Parked(
            within.partition,
            entry.number,
            entry.key,
            entry.attempts,
            entry.error,
            "group" if isinstance(entry.item, Fire) else "message",
        )
        for within in partitions(store, app, agent)
        for entry in within.sealed.by_number.values()
        if entry.state == "parked"
    ]


def retry(store: Store, partition: Partition, numbers: Collection[GroupNumber], person: Person) -> Claim:
    """Retries these items: their attempts are counted from 1 again. Raises as `amend`."""
    section = Section({}, dict.fromkeys(numbers, 0), dict.fromkeys(numbers, ""))
    offsets = sorted({in_order(number)[0] for number in numbers})
    places = ", ".join(f"{partition.topic}/{partition.number}/{offset}" for offset in offsets)
    return amend(store, partition, person, "parked retry", places, sealed=section)
