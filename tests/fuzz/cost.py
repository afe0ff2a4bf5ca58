"""Does the cost of an input grow faster than its size? Three measures of sizes n, 2n and 4n:

- lines of our Python that run: a count, the same in each run;
- the highest memory of Python's objects, as tracemalloc counts it;
- CPU time of the thread, the least of several turns, which also sees code in C.

Linear work costs twice as much for twice the input, quadratic work four times.
"""

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas.codecs import Unwritable
from sluicegate.schemas.json import UNREADABLE
from sluicegate.streams.expressions.faults import EvaluationError
from sluicegate.streams.windows.times import NoTime
from tests.expressions.bounds import limit

REFUSALS = (*UNREADABLE, msgspec.DecodeError, EvaluationError, NoTime, Unwritable)
"""What a target may raise for an input."""
TWICE = 3.1
"""The most that 4n may cost of what 2n costs, in lines and memory: between linear and quadratic, and a table that
doubles does it at once. n itself does not count: what is done for large inputs only begins somewhere."""
TIME = 9.0
"""The most that 4n may take of the time of n, on a machine that others use."""
A_BYTE_TIME = 14e-6
"""Seconds a byte: alternatives of JSON Schema take the longest. More is too much at any growth."""
A_BYTE_MEMORY = 1_500
"""Bytes of objects for a byte of input: a message of Protobuf without a byte is an object with all its fields."""
LEAST_TIME, LEAST_MEMORY, LEAST_LINES = 0.004, 400_000, 2_000
"""What is no growth below it: a first call, a cache, an allocator's block."""
TURNS = 5


class Case(NamedTuple):
    """`make(n)` is an input of about n bytes, `run` what costs."""

    name: str
    make: Callable[[int], Any]
    run: Callable[[Any], object]


def faults(case: Case, lines_of: int, time_of: int) -> list[str]:
    """What grows too fast; empty: nothing. The smallest sizes of the two measures are given in bytes."""
    small, large = ([case.make(size << step) for step in range(3)] for size in (lines_of, time_of))
    lines, kept = [_lines(case.run, value) for value in small[1:]], [memory(case.run, value) for value in small[1:]]
    wrong = [
        f"{case.name}: {cost} {unit} for {lines_of << 1:,} and {lines_of << 2:,} bytes"
        for unit, cost, least in (("lines", lines, LEAST_LINES), ("bytes of objects", kept, LEAST_MEMORY))
        if cost[1] > least and cost[1] > TWICE * cost[0]
    ]
    if kept[-1] > LEAST_MEMORY + A_BYTE_MEMORY * (lines_of << 2):
        wrong.append(f"{case.name}: {kept[-1]:,} bytes of objects for {lines_of << 2:,} bytes")
    return wrong or _slow(case, large, time_of)


def _slow(case: Case, values: Sequence[Any], size: int) -> list[str]:
    """A size that takes far too long ends it: the next one would take as long as the test has."""
    taken = [1e9] * len(values)
    for step, value in enumerate(values):
        taken[step] = _seconds(case.run, value)
        most = LEAST_TIME + A_BYTE_TIME * (size << step)
        if taken[step] > most and min(taken[step], _seconds(case.run, value)) > most * limit() / 0.1:
            return [f"{case.name}: {taken[step]:.3f} s for {size << step:,} bytes"]
    if taken[-1] < LEAST_TIME or taken[-1] < TIME / 2 * taken[0]:
        return []
    for _ in range(TURNS):  # all sizes in turn: a neighbour of the processor that comes and goes slows each of them
        taken = [min(best, _seconds(case.run, value)) for best, value in zip(taken, values, strict=True)]
    slow = taken[-1] > LEAST_TIME and taken[-1] > TIME * taken[0]
    return [f"{case.name}: {taken} s for {size:,} bytes, twice and four times as many"] if slow else []


def _called(run: Callable[[Any], object], value: Any) -> None:
    with suppress(*REFUSALS):
        run(value)


def _seconds(run: Callable[[Any], object], value: Any) -> float:
    """Without the collector of cycles, which looks at all objects of the process again as they become more."""
    gc.collect()
    gc.disable()
    try:
        began = time.thread_time()
        _called(run, value)
        return time.thread_time() - began
    finally:
        gc.enable()


def memory(run: Callable[[Any], object], value: Any) -> int:
    _called(run, value)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _called(run, value)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _lines(run: Callable[[Any], object], value: Any) -> int:
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, event: str, argument: Any) -> Any:
        return line

    _called(run, value)
    before = sys.gettrace()
    sys.settrace(call)
    try:
        _called(run, value)
    finally:
        sys.settrace(before)
    return count
