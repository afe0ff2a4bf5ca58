"""The newest failure of each partition that this worker lost or cannot claim, until the failure is over."""

from typing import NamedTuple

from sluicegate.streams.contracts.stores import TopicPartition

RETRIED = 10.0
"""Seconds after a claim in which what failed before it is tried again."""


class LastFailure(NamedTuple):
    """`owned`: an owner failed, and not a claim. `until` is the time at which the failure counts as over; None: the
    partition was not claimed again yet."""

    text: str
    owned: bool
    until: float | None = None


class LastFailures:
    """The failures by partition. A failure is over with the next commit. It is over with a claim, too, if nothing is
    left to do that could fail again: its commit was not answered, and yet it was made."""

    def __init__(self) -> None:
        self._failures: dict[TopicPartition, LastFailure] = {}
        self._logged: dict[TopicPartition, str] = {}

    def note(self, place: TopicPartition, text: str, owned: bool) -> None:
        self._failures[place] = LastFailure(text, owned)

    def unlogged(self, place: TopicPartition, text: str) -> bool:
        """Whether this text was not logged for the partition yet since the last failure that is over."""
        before, self._logged[place] = self._logged.get(place), text
        return before != text

    def claimed(self, place: TopicPartition, work: bool, now: float) -> None:
        """`work`: records wait to be read, or the deadline of a group has passed."""
        failure = self._failures.get(place)
        if failure is not None and failure.owned and work:
            self._failures[place] = failure._replace(until=now + RETRIED)
        else:
            self.forget(place)

    def forget(self, place: TopicPartition) -> None:
        self._failures.pop(place, None)
        self._logged.pop(place, None)

    def text(self, place: TopicPartition, now: float) -> str | None:
        """None: the partition did not fail, or the failure is over."""
        failure = self._failures.get(place)
        return None if failure is None or (failure.until is not None and now >= failure.until) else failure.text
