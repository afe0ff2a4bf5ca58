"""The options with which a store is opened for the leased contracts."""

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from sluicegate.streams.contracts.leased_values import Types, positive


@dataclass(frozen=True, slots=True)
class TimeoutOptions:
    """The lease of a batch, and its default size. Raises ValueError."""

    lease: timedelta = timedelta(minutes=5)
    batch_size: int = 500

    def __post_init__(self) -> None:
        positive(self.lease)
        if self.batch_size < 1:
            raise ValueError("batch_size is at least 1")


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """A row is dead when it reaches `attempts`. The back-off doubles from `backoff_first` to `backoff_most`. Raises
    ValueError."""

    attempts: int = 10
    backoff_first: timedelta = timedelta(seconds=1)
    backoff_most: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("attempts is at least 1")

    def pause(self, attempts: int) -> timedelta:
        """The back-off after this number of failed attempts."""
        doubled: timedelta = self.backoff_first * 2 ** min(attempts - 1, 30)
        return min(self.backoff_most, doubled)


class LeasedOptions(NamedTuple):
    """The options of the leased contracts. `types` None: every entry resolves as bytes. Timeouts and messages are
    written for `app`. Timeouts and messages of other apps are neither read nor changed. All apps read and change those
    without an app."""

    types: Types | None = None
    timeouts: TimeoutOptions = TimeoutOptions()
    outbox: OutboxOptions = OutboxOptions()
    app: str = ""


STANDARD = LeasedOptions()
