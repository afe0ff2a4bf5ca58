"""The proof under which the worker of a partition believes records, for commands that seldom need the store for it."""

from contextlib import suppress

from sluicegate.streams.agent import App
from sluicegate.streams.cli.opening.files import shared_store
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.reading.proof import HeaderProof


class StoredProof(HeaderProof):
    """Reads the keys and the row of the partition from the store when the first record needs them. Without a store, or
    with one in the memory of `run`, no record can be proven, so all are believed."""

    __slots__ = ("_app", "_asked", "_partition")

    def __init__(self, app: App, partition: Partition) -> None:
        super().__init__()
        self._app, self._partition, self._asked = app, partition, app.store.startswith("memory:")

    def keys(self, record: Record) -> Mac | None:
        """The keys of the app. Raises the errors of the store."""
        from sluicegate.streams.operations.proofs import row_proof
        from sluicegate.streams.versions import mac_keys

        if not self._asked:
            self._asked = True
            with suppress(SystemNotReady), shared_store(self._app) as store:
                stored = row_proof(store, mac_keys.read(store, self._app.name), self._partition)
                self.mac, self.since = stored.mac, stored.since
        return super().keys(record)
