"""How a store is opened for the leased contracts."""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from sluicegate.streams.leased.values import Types, positive


@dataclass(frozen=True, slots=True)
class TimeoutOptions:
    """`lease` of a batch and how many are in one unless the call says otherwise (S1; 500 is the source's cap). Raises ValueError."""

    lease: timedelta = timedelta(minutes=5)
    batch_size: int = 500

    def __post_init__(self) -> None:
        positive(self.lease)
        if self.batch_size < 1:
            raise ValueError("batch_size is at least 1")


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """`attempts` until a row is dead (reaching it, X7); back-off from `backoff_first` to `backoff_most`, doubling. Raises ValueError."""

    attempts: int = 10
    backoff_first: timedelta = timedelta(seconds=1)
    backoff_most: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("attempts is at least 1")

    def pause(self, attempts: int) -> timedelta:
        """After so many failed attempts."""
        doubled: timedelta = self.backoff_first * 2 ** min(attempts - 1, 30)
        return min(self.backoff_most, doubled)


class LeasedOptions(NamedTuple):
    """How a store is opened for the leased contracts. `types` None: every entry resolves as bytes (X24)."""

    types: Types | None = None
    timeouts: TimeoutOptions = TimeoutOptions()
    outbox: OutboxOptions = OutboxOptions()


STANDARD = LeasedOptions()
