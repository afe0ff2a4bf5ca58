"""A worker with many batches in hand renews their leases in one call, so that its look for the batches of a dead worker
comes in time."""

from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased_values import Gate
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.shared.shared_fires import SharedFires
from sluicegate.streams.shared.shared_leases import LOOK_EVERY, MOST, SharedLeases

LEASE = 9.0


class SlowPool:
    """Two threads of a store in which each call takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.jobs, self.ends = seconds, [], [0.0, 0.0]

    def submit(self, job: Any) -> None:
        self.jobs.append(job)

    def until(self, now: float) -> None:
        while self.jobs and min(self.ends) <= now:
            free = self.ends.index(min(self.ends))
            self.ends[free] = max(self.ends[free], now) + self.seconds
            self.jobs.pop(0)()


class Never:
    """Threads in which nothing ends: the completions."""

    def submit(self, job: Any) -> None: ...


class Buffer:
    def __init__(self, clock: Any) -> None:
        self.clock, self.looked, self.renewed = clock, [], []
        self.lost: set[str] = set()
        self.down = False

    def due(self, name: str, gate: Gate, limit: int) -> list[Any]:
        self.looked.append(self.clock.now)
        return []

    def renew_all(self, name: str, tokens: list[str], lease: timedelta) -> list[bool]:
        if self.down:
            raise PersistenceError("down")
        self.renewed.append((self.clock.now, len(tokens)))
        return [token not in self.lost for token in tokens]


class Scene:
    def __init__(self, seconds: float, most: int) -> None:
        self.clock, self.pool, self.counted = SimpleNamespace(now=0.0), SlowPool(seconds), []
        self.buffer = Buffer(self.clock)
        calls, work = (BackgroundCalls(pool, lambda: None) for pool in (self.pool, Never()))
        meter = SimpleNamespace(count=lambda name, *_, **__: self.counted.append(name))
        backoff = SimpleNamespace(delay=lambda: 1.0, reset=lambda: None)
        self.left: list[str] = []
        gate = Gate(2, lease=timedelta(seconds=LEASE))
        after: Any = (meter, lambda: self.clock.now)
        parts: Any = ("b", gate, self.buffer, calls, lambda batch: self.left.append(batch.token), None, *after, backoff)
        rest: Any = (None, None, None, work, *after, lambda: 0.0, backoff)
        self.fires = SharedFires(SharedLeases(*parts), *rest)
        self.fires.leases.take([SimpleNamespace(token=str(n), id=str(n)) for n in range(most)])

    def run(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.pool.until(self.clock.now)
            self.fires.turn(self.clock.now)
            self.clock.now = round(self.clock.now + 0.05, 2)


def test_looks_for_batches_of_others_do_not_wait_behind_renewals() -> None:
    scene = Scene(0.1, MOST - 1)
    scene.run(4 * LEASE)
    looked = scene.buffer.looked
    assert max(later - earlier for earlier, later in pairwise(looked)) < LOOK_EVERY + 0.5
    assert scene.clock.now - looked[-1] < LOOK_EVERY + 0.5


def test_every_lease_is_renewed_three_times_in_its_length() -> None:
    scene = Scene(0.1, 100)
    scene.run(4 * LEASE)
    at = [when for when, tokens in scene.buffer.renewed if tokens == 100]
    assert len(at) == len(scene.buffer.renewed) >= 11
    assert max(later - earlier for earlier, later in pairwise([0.0, *at])) < LEASE / 3 + 0.5


def test_what_another_worker_has_is_dropped_and_the_rest_is_kept() -> None:
    scene = Scene(0.1, 10)
    scene.buffer.lost = {"3", "7"}
    scene.run(LEASE / 2)
    assert scene.counted == ["lease_lost"] * 2
    assert sorted(scene.left) == ["3", "7"]  # what this worker remembers of them is forgotten
    scene.buffer.lost = set()
    scene.run(LEASE / 2)
    assert scene.buffer.renewed[-1][1] == 8


@pytest.mark.parametrize("down", [LEASE / 2])
def test_leases_are_renewed_again_after_the_store_was_down(down: float) -> None:
    scene = Scene(0.1, 10)
    scene.buffer.down = True
    scene.run(down)
    scene.buffer.down = False
    scene.run(LEASE / 3 + 0.5)
    assert [tokens for _, tokens in scene.buffer.renewed] == [10]
    assert scene.counted == []
