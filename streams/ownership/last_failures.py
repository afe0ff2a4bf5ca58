"""The last failure of each partition that this worker lost or cannot claim, until the failure is over."""

from typing import NamedTuple

from sluicegate.streams.contracts.stores import TopicPartition

RETRIED = 10.0
"""Seconds after a claim within which the work that failed before it is retried."""


class LastFailure(NamedTuple):
    """`owned`: an owner failed, not a claim. `until` is the time at which the failure counts as over; None: the
    partition was not claimed again yet."""

    text: str
    owned: bool
    until: float | None = None


class LastFailures:
    """The last failure of each partition. The next commit ends a failure. A claim also ends it if no work remains that
    could fail again: then the commit succeeded although its answer was lost."""

    def __init__(self) -> None:
        self._failures: dict[TopicPartition, LastFailure] = {}
        self._logged: dict[TopicPartition, str] = {}

    def note(self, place: TopicPartition, text: str, owned: bool) -> None:
        self._failures[place] = LastFailure(text, owned)

    def unlogged(self, place: TopicPartition, text: str) -> bool:
        """Whether this text was not yet logged for the partition since the last failure ended."""
        before, self._logged[place] = self._logged.get(place), text
        return before != text

    def claimed(self, place: TopicPartition, work: bool, now: float) -> None:
        """Note a claim. `work`: records wait to be read, or the deadline of a group has passed."""
        failure = self._failures.get(place)
        if failure is not None and failure.owned and work:
            self._failures[place] = failure._replace(until=now + RETRIED)
        else:
            self.forget(place)

    def forget(self, place: TopicPartition) -> None:
        self._failures.pop(place, None)
        self._logged.pop(place, None)

    def text(self, place: TopicPartition, now: float) -> str | None:
        """The text of the failure. None: the partition did not fail, or the failure is over."""
        failure = self._failures.get(place)
        return None if failure is None or (failure.until is not None and now >= failure.until) else failure.text
