"""Breadth-first search of a setup: every world once, every promise at every step, the fair end of every world."""

import gc
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

Trace = tuple[tuple, ...]
TOO_LONG = 200
"""Steps after which a calm world counts as one that never ends; it may not come back to itself, since each claim has a
new token."""


class Rules(NamedTuple):
    """A model. `steps(setup, world)` gives every (label, next world), `broken(setup, before, label, after)` the
    promises that a step broke, `calm(setup, world)` the world when faults stop, `fair_step` what it does next (None at
    its end), `is_done` whether that end is good; if not, the promise `ends` is broken."""

    steps: Callable
    broken: Callable
    calm: Callable
    fair_step: Callable
    is_done: Callable
    ends: str


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


def explore(rules: Rules, setup: Any, wanted: str = "") -> Outcome:
    """Search until a promise breaks (only `wanted`, if given) or the space is done; breadth first: the trace is a
    shortest one."""
    gc.disable()
    try:
        return _explore(rules, setup, wanted)
    finally:
        gc.enable()


def _explore(rules: Rules, setup: Any, wanted: str) -> Outcome:
    begun, start = time.perf_counter(), setup.start()
    came: dict[Any, tuple | None] = {start: None}
    ended: set[Any] = set()
    taken: Counter = Counter()
    waiting = deque([start])

    def found(promise: str, trace: Trace) -> Outcome:
        return Outcome(len(came), taken.total(), len(ended), time.perf_counter() - begun, promise, trace, taken)

    while waiting:
        world = waiting.popleft()
        if wanted in ("", rules.ends):
            try:
                _end(rules, setup, rules.calm(setup, world), ended, wanted)
            except Broken as error:
                return found(error.args[0], (*_trace(came, world), ("faults stop", 0, ""), *error.args[1]))
        for label, after in rules.steps(setup, world):
            taken[" ".join((label[0], *label[3:]))] += 1
            for promise in rules.broken(setup, world, label, after):
                if wanted in ("", promise):
                    return found(promise, (*_trace(came, world), label))
            if after not in came:
                came[after] = (world, label)
                waiting.append(after)
    return found("", ())


def _end(rules: Rules, setup: Any, world: Any, ended: set[Any], wanted: str) -> None:
    """Run a calm world to its end; worlds that are known to end well are not run again."""
    path: list[tuple] = []
    here: set[Any] = set()
    while world not in ended:
        if world in here or len(here) > TOO_LONG:
            raise Broken(rules.ends, tuple(path))
        here.add(world)
        step = rules.fair_step(setup, world)
        if step is None:
            if not rules.is_done(setup, world):
                raise Broken(rules.ends, tuple(path))
            break
        path.append(step[0])
        for promise in rules.broken(setup, world, *step):
            if wanted in ("", promise):
                raise Broken(promise, tuple(path))
        world = step[1]
    ended |= here


def _trace(came: dict[Any, tuple | None], world: Any) -> Trace:
    labels = []
    while (step := came[world]) is not None:
        world, label = step
        labels.append(label)
    return tuple(reversed(labels))


def told(trace: Trace) -> str:
    """A trace for people, one step a line."""
    lines = []
    for number, (what, token, detail, *outcome) in enumerate(trace, 1):
        lines.append(
            " ".join(str(word) for word in (f"{number:3}", f"[{token}]", what, detail, *outcome) if word != "")
        )
    return "\n".join(lines)
