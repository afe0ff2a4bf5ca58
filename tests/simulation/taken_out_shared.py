"""What patches a protection of `scope: shared` away, for `mutants.py`."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from sluicegate.connectors.memory.buffer import MemoryBuffer
from sluicegate.connectors.memory.buffered import Buffered
from sluicegate.streams.contracts.leased_values import NO_RESULTS
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.handlers import attempts
from sluicegate.streams.shared.shared_intake import SharedIntake

Patch = pytest.MonkeyPatch


def nobody_looks(patch: Patch) -> None:
    """What others left is not taken over."""
    due = MemoryBuffer.due

    def own(self: Any, name: str, gate: Any, limit: int = 100) -> Any:
        buffer = self._buffer(name)
        rest, buffer.batches = buffer.batches, {}
        batches = due(self, name, gate, limit)
        buffer.batches = rest | buffer.batches
        return batches

    patch.setattr(MemoryBuffer, "due", own)


def removed_first(patch: Patch) -> None:
    """The records of a batch go, and its messages come in another transaction, if the process lives so long."""
    complete, times = MemoryBuffer._complete, count(1)

    def apart(self: Any, claim: Any, batch: Any, outbox: Any) -> bool:
        done = complete(self, claim, batch, ())
        if next(times) % 20 == 0:
            raise PersistenceError("by the simulation, between the two")
        self._write(outbox)
        return done

    patch.setattr(MemoryBuffer, "_complete", apart)


def sealed_apart(patch: Patch) -> None:
    """A record that ends its group is in the buffer before its group is sealed, if the process lives so long."""
    fill, times = MemoryBuffer.insert_and_seal, count(1)

    def apart(self: Any, name: str, entries: Any, *parts: Any) -> Any:
        if next(times) % 20 == 0:
            fill(self, name, [replace(entry, ends=False) for entry in entries], *parts)
            raise PersistenceError("by the simulation, between the two")
        return fill(self, name, entries, *parts)

    patch.setattr(MemoryBuffer, "insert_and_seal", apart)


def counted_apart(patch: Patch) -> None:
    """A group counts its early result, and its message comes in another transaction, if the process lives so long."""
    complete, times = MemoryBuffer._complete_early, count(1)

    def apart(self: Any, claim: Any, gate: Any, batch: Any, outbox: Any, now: int) -> bool:
        done = complete(self, claim, gate, batch, (), now)
        if next(times) % 20 == 0:
            raise PersistenceError("by the simulation, between the two")
        if done:
            self._write(outbox)
        return done

    patch.setattr(MemoryBuffer, "_complete_early", apart)


def results_forgotten(patch: Patch) -> None:
    """A group is sealed, and its batch does not know its early results."""
    seal = Buffered.seal

    def without(self: Any, *parts: Any) -> str:
        id = seal(self, *parts)
        self.batches[id].past = NO_RESULTS
        return id

    patch.setattr(Buffered, "seal", without)


def any_lease(patch: Patch) -> None:
    """A worker whose lease of an open group has ended counts its result all the same."""
    complete = MemoryBuffer._complete_early

    def held(self: Any, buffer: Any, gate: Any, batch: Any, outbox: Any, now: int) -> bool:
        state = buffer.early.get(batch.group)
        token = batch.token if state is None else state.token
        return complete(self, buffer, gate, replace(batch, token=token), outbox, now)

    patch.setattr(MemoryBuffer, "_complete_early", held)


def dead_all_the_same(patch: Patch) -> None:
    """Whoever took a record into the buffer and died before its commit counts, and the record becomes a dead letter as
    well."""
    patch.setattr(SharedIntake, "holds", lambda self, *parts: False)


def watermark_first(patch: Patch) -> None:
    """The watermark moves, and the records come in another transaction, if the process lives so long."""
    insert, times = MemoryBuffer._insert, count(1)

    def apart(self: Any, name: str, entries: Any, progress: Any, *parts: Any) -> Any:
        insert(self, name, (), progress, *parts)
        if next(times) % 20 == 0:
            raise PersistenceError("by the simulation, between the two")
        return insert(self, name, entries, None, *parts)

    patch.setattr(MemoryBuffer, "_insert", apart)


def hand_outs(patch: Patch) -> None:
    """Whoever was handed a batch began it, and died of it."""
    patch.setattr(attempts, "ALONE", 1)


def unmarked(patch: Patch) -> None:
    """A batch begins alone, and the store does not know."""
    renew = MemoryBuffer.renew
    patch.setattr(
        MemoryBuffer, "renew", lambda self, name, token, lease, attempts=None: renew(self, name, token, lease)
    )
