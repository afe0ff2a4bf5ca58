"""How long it takes after a fault until all partitions that it met have made progress with records that came after
it."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(eq=False)
class Case:
    """One fault, called `name`; `waiting` says of each partition up to where it had records when the clock began.
    `last` is the one that went on as the last."""

    kind: str
    name: str
    begun: float
    waiting: dict[Place, int]
    last: Place | None = None
    seconds: float = 0.0


class Recoveries:
    """Every method may be called from any thread; times are seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: list[Case] = []
        self._over: list[Case] = []

    def begin(self, kind: str, name: str, ends: Mapping[Place, int]) -> Case:
        """`ends` are the next offsets of the affected partitions; a fault that met none is not measured."""
        case = Case(kind, name, self._clock(), dict(ends))
        with self._lock:
            if case.waiting:
                self._open.append(case)
        return case

    def forget(self, case: Case) -> None:
        """The fault was none."""
        with self._lock:
            self._open = [group for group in self._open if group is not case]

    def progressed(self, place: Place, offset: int) -> None:
        """An effect of the record at this offset has come."""
        with self._lock:
            for case in self._open:
                if case.waiting.get(place, offset + 1) <= offset:
                    del case.waiting[place]
                    case.last, case.seconds = place, self._clock() - case.begun
            self._over += [case for case in self._open if not case.waiting]
            self._open = [case for case in self._open if case.waiting]

    def times(self) -> dict[str, list[float]]:
        """Of each kind, in the order in which they were over."""
        results: defaultdict[str, list[float]] = defaultdict(list)
        for case in self._over:
            results[case.kind].append(case.seconds)
        return dict(results)

    def slowest(self, count: int) -> list[Case]:
        return sorted(self._over, key=lambda case: -case.seconds)[:count]

    @property
    def open(self) -> int:
        """Faults after which not all partitions have gone on."""
        return len(self._open)


def percentile(times: Sequence[float], share: float) -> float:
    """The nearest rank."""
    ordered = sorted(times)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]
