"""Threads of one process that want the same buffer of MongoDB, where a transaction does not wait for a lock but fails
and begins again."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from sluicegate.connectors.mongodb import connection, steps
from sluicegate.streams.errors import PersistenceError
from tests.contracts.buffer.given import entries

pytestmark = pytest.mark.parametrize("backend", ["mongodb"], indirect=True)
THREADS, EACH = 6, 8


@pytest.fixture
def begun_again(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before a transaction begins again."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    return pauses


def insert_at_once(buffer: Any, name: str) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda number: buffer.insert(name, entries(number)), range(THREADS * EACH)))
    assert buffer.count(name) == THREADS * EACH


def test_they_wait_for_each_other_and_none_begins_again(buffer: Any, ns: str, begun_again: list[float]) -> None:
    # the collections' and the lock's first use may conflict with others' tests
    buffer.insert(ns, entries(THREADS * EACH))
    buffer.remove_all(ns)
    begun_again.clear()
    insert_at_once(buffer, ns)
    assert begun_again == []


def test_without_that_they_begin_again(
    buffer: Any, ns: str, begun_again: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.StepRunner, "_turn", lambda self, key: nullcontext())
    insert_at_once(buffer, ns)
    assert begun_again


def test_none_waits_for_ever(buffer: Any, ns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "TURNS", 1)
    monkeypatch.setattr(buffer._steps, "_turns", buffer._steps._turns[:1])
    with monkeypatch.context() as short, buffer._steps._turns[0]:
        short.setattr(connection, "REPLY_SECONDS", 0.2)
        with pytest.raises(PersistenceError, match="other threads of this process held the lock"):
            buffer.insert(ns, entries(1))
    assert buffer.insert(ns, entries(1)).stored == 1
