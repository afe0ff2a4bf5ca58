"""How long to wait before trying again: doubling, with jitter, forgotten after things went well for a while."""

from collections.abc import Callable


class Backoff:
    """`first` and `most` are seconds; `random` gives numbers in [0, 1)."""

    def __init__(self, first: float, most: float, random: Callable[[], float]) -> None:
        self._first = first
        self._most = most
        self._random = random
        self._next = first

    def delay(self) -> float:
        """Seconds to wait this time, between half and all of a bound that doubles with every call."""
        bound = self._next
        self._next = min(self._most, bound * 2)
        return bound * (0.5 + self._random() / 2)

    def reset(self) -> None:
        """Things went well: begin anew."""
        self._next = self._first
