"""The time of an owner: the store's time at its last answer, plus the time that has passed in this process since
then."""

from math import inf

BACK = 1.0  # tolerance in seconds: a slow answer may explain this difference


class StoreClock:
    """Times in seconds. `last` is the latest time that was read. `monotonic` is the process' own time at that moment.
    `last` goes back only if the store's clock was set back by more than BACK. `set_back` is then true until the next
    answer."""

    __slots__ = ("_answered", "_at", "_took", "last", "monotonic", "set_back")

    def __init__(self, store_time: float, monotonic: float) -> None:
        self.last = self._at = store_time
        self._answered = self.monotonic = monotonic
        self._took = inf  # the duration of the last call is unknown
        self.set_back = False

    def now(self, monotonic: float) -> float:
        self.monotonic = monotonic
        self.last = max(self.last, self._at + monotonic - self._answered)
        return self.last

    def answered(self, store_time: float, monotonic: float, took: float) -> float:
        """Process an answer: the store read its clock at some moment of a call that took `took` seconds (inf: unknown).
        Returns the number of seconds by which the store's clock jumped relative to this process' clock; 0 if the
        durations of this call and the one before explain the difference."""
        jump = store_time - (self._at + monotonic - self._answered)
        unsure, self._took = took + self._took, took
        self._at, self._answered = store_time, monotonic
        if self.last - store_time > BACK:
            self.last, self.set_back = store_time, True
        else:
            self.set_back = False
        return jump if abs(jump) > unsure else 0.0
