"""The keys of a process that runs, which follow `sluicegate keys rotate` without a restart.

A process that signs looks at the keys every READ_EVERY seconds, and signs with a new key from the moment that the key
names. A process that proves reads them again before it refuses a record with a MAC, unless it did so within the last
READ_EVERY seconds. A new key was made SIGNS_AFTER before its first signature, which is longer: so no genuine record is
refused, also by a process that was paused, or whose store was away.
"""

from collections.abc import Callable
from contextlib import suppress

from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Reader, Store
from sluicegate.streams.errors import ChangelogIncomplete, PersistenceError, SystemNotReady
from sluicegate.streams.versions.mac_keys import READ_EVERY, read, read_or_make


class LiveKeys(Mac):
    """As the store has them."""

    __slots__ = ("_monotonic", "_read_at", "_store")

    def __init__(self, store: Reader, keys: Mac, monotonic: Callable[[], float]) -> None:
        super().__init__(keys.app, keys._keys, keys.since)
        self._store, self._monotonic, self._read_at = store, monotonic, monotonic()

    def renew(self) -> None:
        """Keep the keys that are known while the store is away."""
        with suppress(PersistenceError, SystemNotReady, ChangelogIncomplete):
            self._read_again()

    def _read_again(self) -> bool:
        """Whether the keys were read again. Raises PersistenceError and ChangelogIncomplete, and so does `proves`:
        without the store nobody knows whether the key is a new one."""
        now = self._monotonic()
        if now - self._read_at < READ_EVERY:
            return False
        stored = read(self._store, self.app)
        self._read_at = now
        if stored is not None:
            self._take(stored._keys, stored.since)
        return True


def opened(store: Store, app: str, token: Callable[[], str], monotonic: Callable[[], float]) -> LiveKeys:
    """The keys of the app, which are made if it has none. Raises PersistenceError and ChangelogIncomplete."""
    return LiveKeys(store, read_or_make(store, app, token), monotonic)
