"""Calls to librdkafka that may never return."""

import threading

import pytest

from sluicegate.connectors.kafka.transactions import Aside
from tests.waiting import wait_until


def test_calls_share_one_thread_and_raise_what_they_raised() -> None:
    aside, seen = Aside(), list[int]()
    for _ in range(3):
        assert aside.run(lambda: seen.append(threading.get_ident()), 10)
    assert len(set(seen)) == 1

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        aside.run(fails, 10)
    assert aside.run(lambda: seen.append(threading.get_ident()), 10)
    assert len(set(seen)) == 1
    aside.end()
    wait_until(lambda: seen[0] not in {thread.ident for thread in threading.enumerate()}, what="the end of the thread")


def test_a_call_that_does_not_return_is_left_behind_and_the_next_one_has_a_thread_of_its_own() -> None:
    aside, over, seen = Aside(), threading.Event(), list[int]()

    def hangs() -> None:
        seen.append(threading.get_ident())
        over.wait(30)

    assert not aside.run(hangs, 0.05)
    assert aside.run(lambda: seen.append(threading.get_ident()), 10)
    assert len(set(seen)) == 2
    over.set()
    wait_until(lambda: seen[0] not in {thread.ident for thread in threading.enumerate()}, what="the end of the thread")
    aside.end()
