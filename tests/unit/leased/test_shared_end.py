"""A worker of the shared scope that ends: what it began at the store is not cut off in the middle, what it has in hand
is given back."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.calling.pool import Threads
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.shared.shared_intake import SharedIntake
from tests.unit.engine.driver import Driver
from tests.unit.engine.scene import a_log, feed

RULE = Aggregation(count=2, since_first=30.0, compute=(Reducer("total", "sum", "amount"),))
AGENT = Agent("a", ("in",), RULE, Destination("out"), "dead", scope="shared")


class Broken(Exception):
    pass


class World:
    """One worker with a batch complete in its store; `did` is what the store has ended."""

    def __init__(self) -> None:
        self.store, log = MemoryStore(), a_log()
        self.driver = Driver(AGENT, self.store, log, pool=Threads).give(0)
        self.begun, self.did = threading.Event(), list[str]()
        feed(log, ("k", 1), ("k", 2))

    def slow(self, what: str) -> Callable[..., Any]:
        def call(*_: object) -> Any:
            self.begun.set()
            threading.Event().wait(0.5)
            self.did.append(what)
            return (True,)

        return call

    def begins(self) -> bool:
        """For `run`: turn until the store was called."""
        return self.begun.wait(0.005)


def ended_by_an_error(patch: pytest.MonkeyPatch) -> list[str]:
    world = World()
    patch.setattr(world.store.buffer, "complete_all", world.slow("completed"))

    def stop() -> bool:
        if world.begins():
            raise Broken
        return False

    with pytest.raises(Broken):
        world.driver.worker.run(stop)
    return world.did


def test_a_completion_under_way_ends_before_an_error_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended_by_an_error(monkeypatch) == ["completed"]


def test_without_that_it_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedIntake, "finish", lambda self: None)
    assert ended_by_an_error(monkeypatch) == []


def stopped_with_a_batch_in_hand(patch: pytest.MonkeyPatch) -> list[str]:
    world = World()

    def away(*_: object) -> None:
        world.begun.set()
        raise SystemNotReady("away")

    patch.setattr(world.store.buffer, "complete_all", away)
    patch.setattr(world.store.buffer, "release", world.slow("released"))
    turns = iter(range(50))  # after the failure was heard the batch waits for its next attempt: the clock stands still
    assert world.driver.worker.run(lambda: world.begins() and next(turns, None) is None) == 0
    return world.did


def test_a_batch_in_hand_is_given_back_before_a_stop_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stopped_with_a_batch_in_hand(monkeypatch) == ["released"]


def test_without_that_it_is_cut_off_and_others_wait_for_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SharedIntake, "finish", lambda self: None)
    assert stopped_with_a_batch_in_hand(monkeypatch) == []
