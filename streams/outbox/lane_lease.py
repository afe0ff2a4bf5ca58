"""The leases of a process on the lanes of the outbox: their tokens, and how long they are."""

from collections.abc import Callable

LONGEST = 60.0  # seconds; also the time after which a lane of a process that died is claimed, unless the file says more


class LaneLease:
    """The lease on one lane. `seconds` is the length of the next lease. A lane that was lost is claimed for twice as
    long, and for half as long when a batch took less than a quarter. If calls of the store took longer than the lease,
    processes would take the lane from each other for ever, and send its rows again without recording any."""

    __slots__ = ("_least", "seconds", "token")

    def __init__(self, token: str, seconds: float) -> None:
        self.token = token
        self.seconds = self._least = seconds

    def lost(self) -> None:
        """Another process may have the lane, or its rows without order."""
        self.seconds = max(self._least, min(2 * self.seconds, LONGEST))

    def kept(self, took: float) -> None:
        """A batch was recorded `took` seconds after its lease began."""
        if took >= self.seconds:
            self.lost()
        elif 4 * took < self.seconds:
            self.seconds = max(self._least, self.seconds / 2)


class LaneLeases:
    """One lease for each lane of the process. `token` returns a new random name."""

    def __init__(self, token: Callable[[], str], seconds: float) -> None:
        self._token, self._seconds = token, seconds
        self._leases: dict[int, LaneLease] = {}

    def of(self, lane: int) -> LaneLease:
        return self._leases.get(lane) or self._leases.setdefault(lane, LaneLease(self._token(), self._seconds))
