"""Checks the results of fetches: records from before a seek, and errors."""

from typing import Any

from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Input, TopicPartition
from sluicegate.streams.ownership.checks import check_low
from sluicegate.streams.ownership.owner import Owner


class Fetches:
    """The fetches of one consumer."""

    def __init__(self, source: Input, log: Any) -> None:
        self._input, self._log = source, log
        self.again: dict[TopicPartition, int] = {}  # after a second seek: the offset of the first record before it
        self.void: set[TopicPartition] = set()  # partitions with a seek since the last poll: drop its records
        self._unreadable: dict[TopicPartition, str] = {}  # the error code, until a commit includes records again

    def seek_again_if_gap(self, owner: Owner, record: Record) -> bool:
        """Seek again if the first record after a claim is above the offset. Returns whether to drop the records.

        A fetch that started before a seek may be answered after it. If the same record comes again, the gap is real.
        Raises RetentionPassed if the topic begins above the offset.
        """
        place = owner.place
        if owner.marks.begun or record.offset() <= owner.intake.offset:
            return False
        if place in self.void:
            return True
        if self.again.get(place) == record.offset():
            check_low(self._input.facts(*place), owner.intake.offset, record.offset())
            return False
        self.again[place] = record.offset()
        self.void.add(place)
        self._input.start(*place, owner.intake.offset, owner.intake.epoch)
        return True

    def failed(self, place: TopicPartition, code: str, text: str) -> None:
        """Note that the consumer cannot read the partition now."""
        if self._unreadable.get(place) != code:
            self._log.warning("partition.unreadable", topic=place[0], partition=place[1], code=code, error=text)
        self._unreadable[place] = code

    def forget(self, place: TopicPartition) -> None:
        """Forget the partition: it was revoked, or a commit includes its records."""
        self.again.pop(place, None)
        self._unreadable.pop(place, None)

    def reasons(self) -> list[str]:
        """The reasons why this worker is not ready."""
        return [f"cannot read {topic}/{number}: {code}" for (topic, number), code in self._unreadable.items()]
