"""Decides which records of a topic a command believes: the records that the workers of the app believed or wrote
(docs/protocol.md, Proof)."""

from collections.abc import Callable

from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Reader
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.reading.proof import UNKNOWN, HeaderProof
from sluicegate.streams.versions import mac_keys

OffsetAt = Callable[[str, int, float], int]
"""The first offset of a partition whose record is at or after this time, in seconds since 1970."""


class TopicProofs:
    """The proofs of the app's topics, under the keys that `store` has of `app`. Without keys all records are
    believed."""

    def __init__(self, store: Reader, app: str, offset_at: OffsetAt) -> None:
        """Raises PersistenceError and ChangelogIncomplete."""
        self.mac: Mac | None = mac_keys.read(store, app)
        self._store, self._offset_at = store, offset_at

    def input(self, partition: Partition) -> HeaderProof:
        """The proof that the worker of this partition uses."""
        return row_proof(self._store, self.mac, partition)

    def lost_input(self, topic: str, number: int) -> HeaderProof:
        """The proof that the worker of a partition used, when the partition's row is lost and the app's keys are
        not."""
        return self.output(topic, number)

    def output(self, topic: str, number: int) -> HeaderProof:
        """The proof of a partition that the app writes. It is required from the first offset on at which every process
        signs."""
        if self.mac is None:
            return HeaderProof()
        since = self.mac.since
        return HeaderProof(self.mac, self._offset_at(topic, number, since) if since > 0 else 0)


def row_proof(store: Reader, mac: Mac | None, partition: Partition) -> HeaderProof:
    """The proof that the worker of this partition uses. Where the partition has no row yet, a new agent believes no
    record without proof. Raises PersistenceError."""
    view = store.read(partition)
    source = None if view is None else view.claim.source
    if source is None:
        return HeaderProof(mac, 0 if view is None or view.claim.offset < 0 else UNKNOWN)
    return HeaderProof(mac, source.proof_from)
