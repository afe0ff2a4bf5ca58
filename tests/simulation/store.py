"""The store as one process reaches it: calls that fail, replies that are lost, bytes that land late or twice, a clock
that jumps."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from sluicegate.connectors.commits import commit_each
from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.values import Changes, Claim, ColdGroup, Level, OutboxRow, Partition, PartitionView
from sluicegate.streams.errors import Fenced, PersistenceError, SluicegateError
from tests.simulation.shared import Buffer

State = dict[Partition, Any]


class Reached:
    """Satisfies sluicegate.streams.contracts.stores.Store."""

    def __init__(self, store: MemoryStore, process: Any) -> None:
        self._store, self._process, self._world = store, process, process.world
        self.buffer = Buffer(store.buffer, process)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        self._reach("claim-asked")
        claim = self._store.claim(partition, token, member)
        self._world.claimed(self._process, partition, token)
        self._reach("claim-answered")
        return claim

    def restore(self, claim: Claim) -> Iterator[bytes]:
        self._answer()
        return self._store.restore(claim)

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        self._reach("commit-asked")
        self._world.hits["evicted"] += len(changes.put_cold)
        self._world.hits["touched again"] += len(changes.drop_cold) + len(changes.drop_due)
        if self._process.late:
            later, self._process.late = self._world.number + self._process.late, 0
            self._world.wire.append((later, claim, changes))
            raise PersistenceError("no answer, the bytes are under way: by the simulation")
        after = self._fenced(claim, lambda: self._store.commit(claim, changes))
        if self._process.twice:
            later, self._process.twice = self._world.number + self._process.twice, 0
            self._world.wire.append((later, claim, changes))
            if later % 2:
                raise PersistenceError("no answer, and the bytes land once more: by the simulation")
        self._reach("commit-answered")
        return after

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        """Nobody stands still inside: others would wait for the lock."""
        self._reach("commit-asked")
        self._process.locked = True
        try:
            after = self._fenced(claim, lambda: self._store.commit_with(claim, work))
        finally:
            self._process.locked = False
        self._reach("commit-answered")
        return after

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        return commit_each(self.commit, commits)

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        self._answer()
        return self._store.pending(partition, after, limit)

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        self._answer()
        return self._store.cold(partition, keys)

    def due(self, partition: Partition, until: float, limit: int) -> Sequence[ColdGroup]:
        self._answer()
        return self._store.due(partition, until, limit)

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> Sequence[ColdGroup]:
        self._answer()
        return self._store.keys(partition, after, limit)

    def before(self, partition: Partition, key: bytes, limit: int) -> Sequence[ColdGroup]:
        self._answer()
        return self._store.before(partition, key, limit)

    def clear_crash_mark(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        self._answer()
        self._store.clear_crash_mark(partition, token, processes)

    def read(self, partition: Partition) -> PartitionView | None:
        self._answer()
        return self._store.read(partition)

    def level(self) -> Level:
        self._answer()
        return self._store.level()

    def _reach(self, place: str) -> None:
        self._answer()
        self._world.reach(place)

    def _answer(self) -> None:
        if self._world.number < self._process.away:
            raise PersistenceError("the store does not answer: by the simulation")

    def _fenced(self, claim: Claim, commit: Callable[[], Claim]) -> Claim:
        try:
            after = commit()
            self._world.committed(claim, after.offset)
            return after
        except Fenced:
            self._world.note("fenced", "")
            raise


def saved(store: MemoryStore) -> State:
    """A copy of its partitions as they are now."""
    return {partition: _copied(row) for partition, row in store._rows.items()}


def went_back(store: MemoryStore, before: State) -> None:
    """The store is what it was: what was acknowledged since is lost, and partitions that are newer are not there."""
    store._rows = {partition: _copied(row) for partition, row in before.items()}


def _copied(row: Any) -> Any:
    other = copy(row)
    other.entries, other.unsent, other.order, other.dead = (
        dict(row.entries),
        dict(row.unsent),
        list(row.order),
        dict(row.dead),
    )
    other.cold = row.cold.copy()
    return other
