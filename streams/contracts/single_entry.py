"""A partition that no agent can have, with a changelog of one entry. A change of the entry is one claim and one commit.
If two processes change it at the same time, one of them gets Fenced."""

from typing import Protocol

from sluicegate.streams.contracts.stores import Reader, StateStore
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import Fenced


class EntryStore(Reader, StateStore, Protocol):
    """The store contracts that such a partition needs."""


def read_entry(store: Reader, partition: Partition) -> bytes | None:
    """The entry; None if it does not exist. Raises PersistenceError."""
    view = store.read(partition)
    return view.entries[-1] if view is not None and view.entries else None


def claim_entry(
    store: EntryStore, partition: Partition, token: str, member: str, busy: str
) -> tuple[Claim, bytes | None]:
    """Claim the partition with a new random `token`, and read its entry. `member` is the name that operators see.
    Raises PersistenceError, and Fenced with the text `busy` if another process claimed it at the same time."""
    claim = store.claim(partition, token, member)
    view = store.read(partition)
    if view is None or view.claim.token != token:
        raise Fenced(busy)
    return claim, view.entries[-1] if view.entries else None


def write_entry(store: StateStore, claim: Claim, entry: bytes) -> None:
    """Replace the entry. Raises Fenced and PersistenceError."""
    store.commit(claim, Changes(0, entries=[entry], keep_from=claim.last + 1))
