"""The back-off between attempts: it doubles, has jitter, and begins again with its first delay after a success."""

from collections.abc import Callable


class Backoff:
    """`first` and `most` are seconds. `random` returns numbers in [0, 1)."""

    def __init__(self, first: float, most: float, random: Callable[[], float]) -> None:
        self._first = first
        self._most = most
        self._random = random
        self._next = first

    def delay(self) -> float:
        """The seconds to wait this time: between half and all of a bound that doubles with every call."""
        bound = self._next
        self._next = min(self._most, bound * 2)
        return bound * (0.5 + self._random() / 2)

    def reset(self) -> None:
        """A call succeeded: begin again with the first delay."""
        self._next = self._first
