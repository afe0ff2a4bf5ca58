"""The keys of a running process. They follow `sluicegate keys rotate` without a restart.

A signing process reads the keys every READ_EVERY seconds, and uses a new key from the moment that the key names. A
verifying process reads them again before it refuses a record with a MAC, unless it did so within the last READ_EVERY
seconds. A new key exists for SIGNS_AFTER before its first signature, which is longer. So no genuine record is refused,
even by a process that was paused or that could not reach the store.
"""

from collections.abc import Callable
from contextlib import suppress

from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Reader, Store
from sluicegate.streams.errors import ChangelogIncomplete, PersistenceError, SystemNotReady
from sluicegate.streams.versions.mac_keys import READ_EVERY, read, read_or_make


class LiveKeys(Mac):
    """The current keys in the store."""

    __slots__ = ("_monotonic", "_read_at", "_store")

    def __init__(self, store: Reader, keys: Mac, monotonic: Callable[[], float]) -> None:
        super().__init__(keys.app, keys._keys, keys.since)
        self._store, self._monotonic, self._read_at = store, monotonic, monotonic()

    def renew(self) -> None:
        """Read the keys again if it is time. Keeps the known keys while the store does not answer."""
        with suppress(PersistenceError, SystemNotReady, ChangelogIncomplete):
            self._read_again()

    def _read_again(self) -> bool:
        """Read the keys again, if it is time. Returns True if they were read. Raises PersistenceError and
        ChangelogIncomplete, and so does `proves`: without the store it is unknown whether the key is a new one."""
        now = self._monotonic()
        if now - self._read_at < READ_EVERY:
            return False
        stored = read(self._store, self.app)
        self._read_at = now
        if stored is not None:
            self._take(stored._keys, stored.since)
        return True


def opened(store: Store, app: str, token: Callable[[], str], monotonic: Callable[[], float]) -> LiveKeys:
    """Return the keys of the app. They are created if the app has none. Raises PersistenceError and
    ChangelogIncomplete."""
    return LiveKeys(store, read_or_make(store, app, token), monotonic)
