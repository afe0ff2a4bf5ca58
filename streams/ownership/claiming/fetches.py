"""What the fetches of a partition bring: records from before a seek, or errors."""

from typing import Any

from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Input, TopicPartition
from sluicegate.streams.ownership.checks import check_low
from sluicegate.streams.ownership.owner import Owner


class Fetches:
    """Those of one consumer."""

    def __init__(self, source: Input, log: Any) -> None:
        self._input, self._log = source, log
        self.again: dict[TopicPartition, int] = {}  # after a second seek: the first record that came before it
        self.void: set[TopicPartition] = set()  # sought since the last poll: drop the records that it returned
        self._unreadable: dict[TopicPartition, str] = {}  # the error code, until a commit has records again

    def seek_again_if_gap(self, owner: Owner, record: Record) -> bool:
        """Seek again when the first record after a claim is above the offset. Returns whether to drop the records.

        A fetch that was under way may be answered after a seek. When the same record comes again, the gap is real.
        Raises RetentionPassed when the topic begins above the offset."""
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
        """The consumer cannot read the partition now."""
        if self._unreadable.get(place) != code:
            self._log.warning("partition.unreadable", topic=place[0], partition=place[1], code=code, error=text)
        self._unreadable[place] = code

    def forget(self, place: TopicPartition) -> None:
        """The partition is no longer this worker's, or a commit has records of it."""
        self.again.pop(place, None)
        self._unreadable.pop(place, None)

    def reasons(self) -> list[str]:
        """Why this worker is not ready."""
        return [f"cannot read {topic}/{number}: {code}" for (topic, number), code in self._unreadable.items()]
