"""`singleton`: one call of a key at a time, over all workers of the agent.

A ledger has the holder of each key, and the end of its lease. The loop renews the leases of running calls. The thread
of a call releases its key in memory, and the loop releases it in the store. The keys of a process that ends stay locked
until its leases end.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import Lock

from sluicegate.streams.errors import ChangelogIncomplete, Fenced, PersistenceError, SystemNotReady
from sluicegate.streams.flow.ledger import Ledger, States

LEASE = 15.0  # seconds; renewed after a third of it
ENTERS = 2.0  # seconds after which an admitted call that did not begin is considered cancelled
AGAIN = 0.1  # seconds until a key that another process holds is requested again
TURN = 1.0  # seconds for which a process may keep a key for its own items before others get it
UNUSED = 0.05  # seconds for which a free key is kept for the next item of this process


class KeyLease:
    """A key that this process holds since the time `since` of its own clock, until the time `until` of the store's
    clock. `call` is the call that was admitted and has not ended; `entered` is set when it begins. `changed` is the
    time at which a call was admitted or ended."""

    __slots__ = ("call", "changed", "entered", "since", "until")

    def __init__(self, since: float, until: float) -> None:
        self.since, self.until, self.changed = since, until, since
        self.call: object | None = None
        self.entered = False

    def unused(self, now: float) -> bool:
        return self.call is None and (now - self.changed >= UNUSED or now - self.since >= TURN)

    def use(self, call: object | None, now: float) -> None:
        self.call, self.entered, self.changed = call, False, now


class Singletons:
    """The keys that this process holds. `holder` is its random name, `monotonic` its clock."""

    def __init__(self, ledger: Ledger, holder: str, monotonic: Callable[[], float]) -> None:
        self._ledger, self._holder, self._monotonic = ledger, holder, monotonic
        self._lock = Lock()
        self._keys: dict[bytes, KeyLease] = {}
        self._again: dict[bytes, float] = {}

    def admit(self, calls: Mapping[bytes, object]) -> set[bytes]:
        """The keys whose calls may begin. Raises ChangelogIncomplete."""
        now = self._monotonic()
        self._again = {key: at for key, at in self._again.items() if at > now}
        with self._lock:
            others = [key for key in calls if key not in self._keys and key not in self._again]
        if others:
            self._change(others)
        with self._lock:
            for key in others:
                if key not in self._keys:
                    self._again[key] = now + AGAIN
            return {key for key, call in calls.items() if self._admits(key, call, now)}

    def _admits(self, key: bytes, call: object, now: float) -> bool:
        lease = self._keys.get(key)
        if lease is None or not self._lasts(lease):
            return False
        if lease.call is call and not lease.entered:
            return True
        if lease.call is not None or lease.unused(now):
            return False
        lease.use(call, now)
        return True

    def _lasts(self, lease: KeyLease) -> bool:
        """Whether a call may still begin under this lease."""
        return lease.until - LEASE / 2 > self._ledger.time.latest(self._monotonic())

    def enter(self, key: bytes, call: object) -> bool:
        """Called by a thread before the call. Returns False if the call must not begin."""
        with self._lock:
            lease = self._keys.get(key)
            if lease is None or lease.call is not call or not self._lasts(lease):
                return False
            lease.entered = True
            return True

    def release(self, key: bytes, call: object) -> None:
        """The call has ended, or does not begin: the key is free."""
        with self._lock:
            lease = self._keys.get(key)
            if lease is not None and lease.call is call:
                lease.use(None, self._monotonic())

    def turn(self) -> None:
        """Renew the leases of running calls, and release unused keys. An unreadable ledger is ignored here: it halts
        the partition that requests a key next."""
        now = self._monotonic()
        with self._lock:
            for lease in self._keys.values():
                if lease.call is not None and not lease.entered and now - lease.changed > ENTERS:
                    lease.use(None, now)
            due = any(self._due(lease, now) for lease in self._keys.values())
        if due:
            with suppress(ChangelogIncomplete):
                self._change(())

    def _due(self, lease: KeyLease, now: float) -> bool:
        return lease.unused(now) or lease.until - self._ledger.time.latest(now) < LEASE * 2 / 3

    def _change(self, wanted: Iterable[bytes]) -> None:
        """Write the keys that this process holds from now on, including the `wanted` keys that no other process
        holds."""
        now = self._monotonic()
        with self._lock:
            freed = [key for key, lease in self._keys.items() if lease.unused(now)]
            keys = [key for key in self._keys if key not in freed]
        try:
            leases = self._ledger.change(lambda states, now: self._leases(states, now, keys, freed, wanted))
        except (Fenced, PersistenceError, SystemNotReady):  # leases end without renewal, and no call begins
            return
        with self._lock:
            for key in freed:
                if now - self._keys.pop(key).since >= TURN:
                    self._again[key] = now + 2 * AGAIN
            for key, until in leases.items():
                self._keys.setdefault(key, KeyLease(now, until)).until = until

    def _leases(
        self, states: States, now: float, kept: Iterable[bytes], freed: Iterable[bytes], wanted: Iterable[bytes]
    ) -> Mapping[bytes, float]:
        for key, (holder, until) in list(states.items()):
            ended = until <= now or (holder == self._holder and key in freed)
            states[key] = None if ended else [holder, min(until, now + LEASE)]  # a later end: the clock was set back
        leases = {}
        for key in (*kept, *wanted):
            holder, _ = states.get(key) or (self._holder, 0.0)
            if holder == self._holder:
                states[key] = [self._holder, now + LEASE]
                leases[key] = now + LEASE
        return leases
