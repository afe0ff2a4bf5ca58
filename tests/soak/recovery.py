"""How long it takes after a fault until all partitions that it met have made progress with records that came after it."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(eq=False)
class Case:
    """One fault; `waiting` says of each partition up to where it had records when the clock began."""

    kind: str
    begun: float
    waiting: dict[Place, int]


class Recoveries:
    """Every method may be called from any thread; times are seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: list[Case] = []
        self.times: defaultdict[str, list[float]] = defaultdict(list)

    def begin(self, kind: str, ends: Mapping[Place, int]) -> Case:
        """`ends` are the next offsets of the affected partitions; a fault that met none is not measured."""
        case = Case(kind, self._clock(), dict(ends))
        with self._lock:
            if case.waiting:
                self._open.append(case)
        return case

    def forget(self, case: Case) -> None:
        """The fault was none."""
        with self._lock:
            self._open = [each for each in self._open if each is not case]

    def progressed(self, place: Place, offset: int) -> None:
        """An effect of the record at this offset has come."""
        with self._lock:
            for case in self._open:
                if case.waiting.get(place, offset + 1) <= offset:
                    del case.waiting[place]
            done = [case for case in self._open if not case.waiting]
            self._open = [case for case in self._open if case.waiting]
            for case in done:
                self.times[case.kind].append(self._clock() - case.begun)

    @property
    def open(self) -> int:
        """Faults after which not all partitions have gone on."""
        return len(self._open)


def percentile(times: Sequence[float], share: float) -> float:
    """The nearest rank."""
    ordered = sorted(times)
    return ordered[max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1)]
