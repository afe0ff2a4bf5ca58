"""An owner's time: the store's at its last answer, and what has passed here since."""

from math import inf


class StoreClock:
    """Seconds. `last` is the time that was read last; it never goes back."""

    __slots__ = ("_at", "_monotonic", "_took", "last")

    def __init__(self, store_time: float, monotonic: float) -> None:
        self.last = self._at = store_time
        self._monotonic = monotonic
        self._took = inf  # the duration of the call is unknown

    def now(self, monotonic: float) -> float:
        self.last = max(self.last, self._at + monotonic - self._monotonic)
        return self.last

    def answered(self, store_time: float, monotonic: float, took: float) -> float:
        """The store looked at its clock at some moment of a call that took so long (inf: unknown). Returns how many it
        jumped against ours, 0 when the slowness of this call and the one before it explains the difference."""
        jump = store_time - (self._at + monotonic - self._monotonic)
        unsure, self._took = took + self._took, took
        self._at, self._monotonic = store_time, monotonic
        return jump if abs(jump) > unsure else 0.0
