"""The time of an owner: the store's time at its last answer, plus the time that has passed in this process since."""

from math import inf

BACK = 1.0  # seconds by which the time may be ahead of the store's answer: what a slow answer explains


class StoreClock:
    """Times in seconds. `last` is the latest time that was read, and `monotonic` the process' own time at that moment.
    `last` goes back only where the store's clock was set back by more than BACK. `set_back` is then true until the next
    answer."""

    __slots__ = ("_answered", "_at", "_took", "last", "monotonic", "set_back")

    def __init__(self, store_time: float, monotonic: float) -> None:
        self.last = self._at = store_time
        self._answered = self.monotonic = monotonic
        self._took = inf  # the duration of the call is unknown
        self.set_back = False

    def now(self, monotonic: float) -> float:
        self.monotonic = monotonic
        self.last = max(self.last, self._at + monotonic - self._answered)
        return self.last

    def answered(self, store_time: float, monotonic: float, took: float) -> float:
        """The store read its clock at some moment of a call that took so long (inf: unknown). Returns how many seconds
        the store's clock jumped against this process's clock. Returns 0 if the durations of this call and the one
        before explain the difference."""
        jump = store_time - (self._at + monotonic - self._answered)
        unsure, self._took = took + self._took, took
        self._at, self._answered = store_time, monotonic
        if self.last - store_time > BACK:
            self.last, self.set_back = store_time, True
        else:
            self.set_back = False
        return jump if abs(jump) > unsure else 0.0
