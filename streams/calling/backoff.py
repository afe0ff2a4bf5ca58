"""The back-off between attempts. It doubles, has jitter, and starts again with its first delay after a success."""

from collections.abc import Callable


class Backoff:
    """`first` and `most` are seconds. `random` returns numbers in [0, 1)."""

    def __init__(self, first: float, most: float, random: Callable[[], float]) -> None:
        self._first = first
        self._most = most
        self._random = random
        self._next = first

    def delay(self) -> float:
        """The next delay in seconds: between half of a bound and the whole. The bound doubles with every call."""
        bound = self._next
        self._next = min(self._most, bound * 2)
        return bound * (0.5 + self._random() / 2)

    def reset(self) -> None:
        """Start again with the first delay, because a call succeeded."""
        self._next = self._first
