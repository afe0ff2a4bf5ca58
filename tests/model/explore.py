"""Breadth-first search of a setup: every world once, every promise at every step, the fair end of every world."""

import gc
import time
from collections import Counter, deque
from typing import NamedTuple

from tests.model.promises import DELIVERED, broken
from tests.model.protocol import calm, fair_step, is_done, steps
from tests.model.values import Setup, World

Trace = tuple[tuple, ...]
TOO_LONG = 200
"""Steps after which a calm world counts as one that never ends; it may not come back to itself, since each claim has a new token."""


class Outcome(NamedTuple):
    """What a search found: `promise` "" and an empty trace when nothing broke."""

    states: int
    steps: int
    endings: int
    seconds: float
    promise: str
    trace: Trace
    taken: Counter


class Broken(Exception):
    """A promise broke on the way to the end: (promise, labels since)."""


def explore(setup: Setup, wanted: str = "") -> Outcome:
    """Search until a promise breaks (only `wanted`, if given) or the space is done; breadth first: the trace is a shortest one."""
    gc.disable()
    try:
        return _explore(setup, wanted)
    finally:
        gc.enable()


def _explore(setup: Setup, wanted: str) -> Outcome:
    begun, start = time.perf_counter(), setup.start()
    came: dict[World, tuple | None] = {start: None}
    ended: set[World] = set()
    taken: Counter = Counter()
    waiting = deque([start])

    def found(promise: str, trace: Trace) -> Outcome:
        return Outcome(len(came), taken.total(), len(ended), time.perf_counter() - begun, promise, trace, taken)

    while waiting:
        world = waiting.popleft()
        if wanted in ("", DELIVERED):
            try:
                _end(setup, calm(setup, world), ended, wanted)
            except Broken as error:
                return found(error.args[0], (*_trace(came, world), ("faults stop", 0, ""), *error.args[1]))
        for label, after in steps(setup, world):
            taken[" ".join((label[0], *label[3:]))] += 1
            for promise in broken(setup, world, label, after):
                if wanted in ("", promise):
                    return found(promise, (*_trace(came, world), label))
            if after not in came:
                came[after] = (world, label)
                waiting.append(after)
    return found("", ())


def _end(setup: Setup, world: World, ended: set[World], wanted: str) -> None:
    """Run a calm world to its end; worlds that are known to end well are not run again."""
    path: list[tuple] = []
    here: set[World] = set()
    while world not in ended:
        if world in here or len(here) > TOO_LONG:
            raise Broken(DELIVERED, tuple(path))
        here.add(world)
        step = fair_step(setup, world)
        if step is None:
            if not is_done(setup, world):
                raise Broken(DELIVERED, tuple(path))
            break
        path.append(step[0])
        for promise in broken(setup, world, *step):
            if wanted in ("", promise):
                raise Broken(promise, tuple(path))
        world = step[1]
    ended |= here


def _trace(came: dict[World, tuple | None], world: World) -> Trace:
    labels = []
    while (step := came[world]) is not None:
        world, label = step
        labels.append(label)
    return tuple(reversed(labels))


def told(trace: Trace) -> str:
    """A trace for people, one step a line."""
    lines = []
    for number, (what, token, detail, *outcome) in enumerate(trace, 1):
        lines.append(" ".join(str(word) for word in (f"{number:3}", f"[{token}]", what, detail, *outcome) if word != ""))
    return "\n".join(lines)
