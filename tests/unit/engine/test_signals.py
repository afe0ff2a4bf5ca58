"""A signal that comes again while its handler runs: Python runs the handler inside itself, at any bytecode."""

import collections
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from sluicegate.streams.processes import supervisor
from sluicegate.streams.processes.child import stop_at

Handler = Callable[[int, FrameType | None], object]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The process keeps its own handlers."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run_nested(step: int) -> bool:
    """Run the handler of SIGTERM, and once more before its bytecode number `step`. Returns whether it has as many."""
    handler: Any = signal.getsignal(signal.SIGTERM)
    steps = iter(range(step, -1, -1))
    nested = False

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal nested
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps, None) == 0:
            nested = True
            handler(signal.SIGTERM, None)
        return trace

    def traced() -> None:
        sys.settrace(trace)
        handler(signal.SIGTERM, None)

    thread = threading.Thread(target=traced, daemon=True)
    thread.start()
    thread.join(5.0)
    assert not thread.is_alive(), f"the handler waits for itself, interrupted before bytecode {step}"
    return nested


def test_a_worker_that_is_told_to_stop_twice_at_once_stops() -> None:
    """A service manager sends SIGTERM to all processes, and the supervisor sends it to its workers at that moment."""
    step, nested = 0, True
    while nested:
        stop = stop_at(signal.SIGTERM)
        assert not stop()
        nested = run_nested(step)
        assert stop()
        step += 1
    assert step > 3


def test_without_it_the_worker_would_wait_for_itself() -> None:
    event = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: event.set())
    with pytest.raises(AssertionError, match="waits for itself"):
        collections.deque(map(run_nested, range(200)))


def test_two_signals_at_once_are_one_for_the_supervisor() -> None:
    """With two it would kill the workers that drain."""
    step, nested = 0, True
    while nested:
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with supervisor._signals(events):
            nested = run_nested(step)
        assert events.qsize() == 1, f"interrupted before bytecode {step}"
        step += 1
    assert step > 10
