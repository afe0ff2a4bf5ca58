"""A dispatcher that an error ends: what it has begun at the store is not cut off in the middle."""

import threading

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.calling.pool import Threads
from sluicegate.streams.outbox import dispatcher
from tests.contracts.dispatcher.given import Turned


class Broken(Exception):
    pass


def ended_by_an_error(patch: pytest.MonkeyPatch) -> list[str]:
    """Looking at the outbox raises while a look at the timeouts is under way; what had happened when it was over."""
    store, begun, did = MemoryStore(), threading.Event(), []
    one = Turned(store)
    one.dispatcher._calls._pool = Threads(2)  # type: ignore[attr-defined]

    def slow(*_: object) -> None:
        begun.set()
        threading.Event().wait(0.5)
        did.append("ended")
        raise Broken("nobody hears of it")

    def broken(*_: object, **__: object) -> None:
        begun.wait(10)
        raise Broken("and so it ends")

    patch.setattr(store.timeouts, "get_batch", slow)
    patch.setattr(store.outbox, "claim", broken)
    patch.setattr(store.outbox, "sweep", broken, raising=False)
    with pytest.raises(Broken, match="so it ends"):
        one.dispatcher.run(lambda: False)
    return did


def test_calls_under_way_end_before_an_error_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended_by_an_error(monkeypatch) == ["ended"]


def test_without_that_they_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher.BackgroundCalls, "finish", lambda self: None)
    assert ended_by_an_error(monkeypatch) == []
