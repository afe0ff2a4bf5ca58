"""The states of a limit, or the holders of a lock, in the store: one entry of a partition that no agent can have.

Every process of the agent changes them under a claim, so two processes never grant the same token. A change takes three
calls of the store, and grants tokens for many calls of handlers.
"""

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from sluicegate.streams.aggregation.durable.entry import body_of, framed
from sluicegate.streams.contracts.single_entry import write_entry
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import NOBODY, Claim, Partition
from sluicegate.streams.errors import ChangelogIncomplete, Fenced

T = TypeVar("T")
States = dict[bytes, Any]
LEDGER = b"\x07"
"""The first byte of the entry's content."""
ATTEMPTS = 20
PAUSE = 0.005  # seconds between two attempts at the most
DRIFT = 0.0005
"""The maximum drift between two clocks, in seconds per second: NTP does not slew a clock faster."""
OWN = "~"  # the agent in partitions that belong to no agent


def place(app: str, agent: str, name: str) -> Partition:
    """The partition of the ledger `name` of an agent."""
    return Partition(app, OWN, f"{name}.{agent}", 0)


class StoreTime:
    """The store's time, as an interval: the store read its clock at some moment of a call."""

    __slots__ = ("_at", "_least", "_most")

    def __init__(self) -> None:
        self._at, self._least, self._most = 0.0, 0.0, -1.0

    def answered(self, store_time: float, before: float, after: float) -> None:
        """The store read its clock between these two times of this process. If an answer contradicts earlier ones, the
        clock was set."""
        least, most = store_time - after, store_time - before
        drift = (after - self._at) * DRIFT
        self._at, self._least, self._most = after, self._least - drift, self._most + drift
        if max(least, self._least) <= min(most, self._most):
            self._least, self._most = max(least, self._least), min(most, self._most)
        else:
            self._least, self._most = least, most

    def earliest(self, monotonic: float) -> float:
        return monotonic + self._least

    def latest(self, monotonic: float) -> float:
        return monotonic + self._most


class Ledger:
    """One ledger. `monotonic` is the clock of this process, `token` makes the tokens of claims."""

    def __init__(
        self, store: Store, partition: Partition, token: Callable[[], str], monotonic: Callable[[], float]
    ) -> None:
        self._store, self._partition, self._token, self._monotonic = store, partition, token, monotonic
        self.time = StoreTime()

    def change(self, work: Callable[[States, float], T]) -> T:
        """Call `work` with the states and the store's time, and return its result. It changes the states in place. A
        state of None is removed. It may be called again if another process was faster. Raises Fenced if others were
        always faster; PersistenceError and ChangelogIncomplete."""
        for attempt in range(ATTEMPTS):
            try:
                claim, states = self._claimed()
                result = work(states, claim.store_time)
                kept = {key: state for key, state in states.items() if state is not None}
                write_entry(self._store, claim, framed(LEDGER + msgspec.msgpack.encode(kept)))
                return result
            except Fenced:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(random.uniform(0.0, PAUSE))  # at random: else processes would fence each other again
        raise AssertionError

    def _claimed(self) -> tuple[Claim, States]:
        before = self._monotonic()
        claim = self._store.claim(self._partition, self._token(), NOBODY)
        self.time.answered(claim.store_time, before, self._monotonic())
        entries = list(self._store.restore(claim))
        return claim, unpacked(entries[-1]) if entries else {}


def unpacked(blob: bytes) -> States:
    """The states of an entry. Raises ChangelogIncomplete."""
    try:
        return msgspec.msgpack.decode(body_of(blob, LEDGER), type=States)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ChangelogIncomplete(f"a ledger of flow control in the store cannot be read: {error}") from error
