"""The halted partitions of a worker. Each waits for an operator.

`sluicegate accept-gap` writes a note to the journal. Workers read the journal, not the rows of the partitions.
"""

from collections.abc import Iterator

from sluicegate.streams.contracts.stores import Reader, TopicPartition
from sluicegate.streams.errors import (
    ChangelogIncomplete,
    Halt,
    LogTruncated,
    PartitionsChanged,
    PersistenceError,
    RetentionPassed,
    StoreRewound,
    StoreSwapped,
    StoreWiped,
    SystemNotReady,
    TopicRecreated,
    Unfetchable,
)
from sluicegate.streams.journal import journal
from sluicegate.streams.observe.report import PartitionReport

ACCEPTED = "accept-gap told"
GAPS = (
    RetentionPassed,
    LogTruncated,
    TopicRecreated,
    StoreWiped,
    StoreSwapped,
    StoreRewound,
    ChangelogIncomplete,
    PartitionsChanged,
    Unfetchable,
)


def note_key(agent: str, place: TopicPartition) -> str:
    return f"{agent} {place[0]}/{place[1]}"


class Halted(dict[TopicPartition, tuple[Halt, float]]):
    """The error of each halted partition, and the store's time at which it halted."""

    def reasons(self) -> list[str]:
        return [f"halted {topic}/{number}: {error.code}" for (topic, number), (error, _) in self.items()]

    def reports(self) -> Iterator[PartitionReport]:
        for place, (error, _) in self.items():
            yield PartitionReport(*place, "halted", error=error.code, detail=str(error))

    def accepted(self, store: Reader, app: str, agent: str) -> list[TopicPartition]:
        """The partitions whose gap an operator accepted after they halted. Empty if the journal cannot be read."""
        gaps = {place: since for place, (error, since) in self.items() if isinstance(error, GAPS)}
        if not gaps:
            return []
        try:
            accepted_at = {note.key: note.at for note in journal.notes(store, app) if note.what == ACCEPTED}
        except (PersistenceError, SystemNotReady, ChangelogIncomplete):
            return []
        return [place for place, since in gaps.items() if accepted_at.get(note_key(agent, place), -1.0) > since]
