"""What patches a protection of slow handlers away, for `mutants.py`: their calls run in threads that the seed turns."""

from typing import Any

import pytest

from sluicegate.streams.handlers.sealed import Sealed
from sluicegate.streams.handlers.slow import Slow

Patch = pytest.MonkeyPatch


def key_not_in_order(patch: Patch) -> None:
    """Items of one key run beside each other."""
    end = Sealed.end

    def all_of_a_key(self: Any, now: float, suspects_only: bool) -> list[Any]:
        able = [item for item in self.by_number.values() if item.state == "waiting" and item.ready_at <= now]
        return [item for item in able if item.number in self.suspects] if suspects_only else able

    def anywhere(self: Any, item: Any) -> None:
        queue = self._queues[item.key]
        queue.remove(item.number)
        queue.appendleft(item.number)
        end(self, item)

    patch.setattr(Sealed, "ready", all_of_a_key)
    patch.setattr(Sealed, "end", anywhere)


def loss_counts_as_death(patch: Patch) -> None:
    """A call that runs while its claim is lost counts as an attempt."""
    patch.setattr(Slow, "resumed", lambda self, sealed: None)
