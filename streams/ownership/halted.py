"""The partitions that stand still until a person acts, and how this worker hears of it: `sluicegate accept-gap` leaves
a note in the journal, so the rows themselves need not be read."""

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
)


def note_key(agent: str, place: TopicPartition) -> str:
    return f"{agent} {place[0]}/{place[1]}"


class Halted:
    """By partition, why, and since when by the store's clock."""

    def __init__(self) -> None:
        self._all: dict[TopicPartition, tuple[Halt, float]] = {}

    def add(self, place: TopicPartition, error: Halt, at: float) -> None:
        self._all[place] = error, at

    def pop(self, place: TopicPartition, default: None) -> None:
        self._all.pop(place, default)

    def __contains__(self, place: object) -> bool:
        return place in self._all

    def reasons(self) -> list[str]:
        return [f"halted {topic}/{number}: {error.code}" for (topic, number), (error, _) in self._all.items()]

    def reports(self) -> Iterator[PartitionReport]:
        return (
            PartitionReport(*place, "halted", error=error.code, detail=str(error))
            for place, (error, _) in self._all.items()
        )

    def accepted(self, store: Reader, app: str, agent: str) -> list[TopicPartition]:
        """Those whose gap a person accepted since; none when the store does not say."""
        gaps = {place: since for place, (error, since) in self._all.items() if isinstance(error, GAPS)}
        if not gaps:
            return []
        try:
            told = {each.key: each.at for each in journal.notes(store, app) if each.what == ACCEPTED}
        except (PersistenceError, SystemNotReady, ChangelogIncomplete):
            return []
        return [place for place, since in gaps.items() if told.get(note_key(agent, place), -1.0) > since]
