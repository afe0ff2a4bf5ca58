"""Parked items as a person sees them: read without a claim, and let go by a claim that commits once and leaves."""

from collections.abc import Collection
from typing import NamedTuple

from streams.aggregation.entry import Section, unpacked
from streams.aggregation.events import Fire
from streams.contracts import Store
from streams.engine.amending import Person, amend
from streams.engine.sealed import Held, Sealed
from streams.values import Claim, Partition


class Parked(NamedTuple):
    """A message or completed group that its handler failed for good; `offset` is that of the message, or of the group's first one."""

    partition: Partition
    offset: int
    key: bytes
    attempts: int
    error: str
    kind: str


def parked(store: Store, app: str, agent: str) -> list[Parked]:
    """By topic, partition and offset. Raises PersistenceError, SystemNotReady and ChangelogIncomplete."""
    found: list[Parked] = []
    for partition in [each for each in store.partitions(app) if each.agent == agent]:
        view = store.read(partition)
        sealed = Sealed(place=(partition.topic, partition.number))
        for blob in view.entries if view is not None else ():
            sealed.replay(unpacked(blob).sealed)
        found += [_seen(partition, held) for _, held in sorted(sealed.held.items()) if held.state == "parked"]
    return found


def _seen(partition: Partition, held: Held) -> Parked:
    kind = "group" if isinstance(held.item, Fire) else "message"
    return Parked(partition, held.number, held.key, held.attempts, held.error, kind)


def retry(store: Store, partition: Partition, offsets: Collection[int], person: Person) -> Claim:
    """Let these go: their attempts begin anew. See `amend`."""
    section = Section({}, dict.fromkeys(offsets, 0), dict.fromkeys(offsets, ""))
    places = ", ".join(f"{partition.topic}/{partition.number}/{offset}" for offset in sorted(offsets))
    return amend(store, partition, person, "parked retry", places, sealed=section)
