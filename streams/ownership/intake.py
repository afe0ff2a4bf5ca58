"""The intake of a partition: it passes records to the groups and to the handlers."""

from collections.abc import Sequence

from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events_read import as_read
from sluicegate.streams.aggregation.taking import fill, taken
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.ownership.partition_groups import PartitionGroups, stamping
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.reading.dedupe import DuplicateFilter
from sluicegate.streams.reading.gate import RecordGate
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.windows.intake import take
from sluicegate.streams.windows.marks import without_marks


class Intake(RecordGate):
    """`offset` is the next offset to read. `epoch` is the leader epoch of the record before it. `pending` is the number
    of records that are accepted and not committed. `inbox` has the messages for the handlers. `newest` is the last
    record that this process took. `since` is the process' own time at its first claim of the partition."""

    __slots__ = ("_processor", "epoch", "groups", "inbox", "newest", "offset", "pending", "since")

    def __init__(
        self,
        partition: Partition,
        setting: AgentRuntime,
        groups: PartitionGroups,
        now: float,
        before: "Intake | None" = None,
    ) -> None:
        super().__init__(partition, setting.agent, setting.ids, HeaderProof(setting.mac))
        self._processor, self.groups = setting.processor, groups
        self.inbox: list[Item] = []
        self.newest: Record | None = before.newest if before else None
        self.since: float = before.since if before else now
        self.offset = self.epoch = -1
        self.pending = 0

    def accept(self, records: Sequence[Record], now: float) -> None:
        """Take records of this partition, in order (docs/protocol.md, Accept). Raises Halt."""
        if records[0].offset() < self.offset and not (
            records := [record for record in records if record.offset() >= self.offset]
        ):
            return
        groups = self.groups
        self.newest = last = records[-1]
        fresh = self.fresh(records, now)
        if self.receives and (groups.windows is None or groups.windows.merged is None):
            fresh = without_marks(fresh)
        if not groups.older:
            self._add(fresh, now, self.dedupe)
        else:
            again = as_read(groups.newest, groups.older.select_reread(fresh))
            for run, dedupe in groups.older.take(again, now, self.dedupe, self.inbox):
                self._add(run, now, dedupe)
        self.pending += len(records)
        self.offset = last.offset() + 1
        self.epoch = -1 if (epoch := last.leader_epoch()) is None else epoch

    def _add(self, fresh: Sequence[Record], now: float, dedupe: DuplicateFilter | None) -> None:
        """Add the records to the newest groups, without the duplicates that `dedupe` drops."""
        for run in self.groups.cold.look_up(fresh, now):
            if self.groups.windows is None:
                self._take(run, now, dedupe)
            else:
                take(self.groups.windows, run, now, dedupe)

    def _take(self, fresh: Sequence[Record], now: float, dedupe: DuplicateFilter | None) -> None:
        groups, origin, batches = self.groups.newest, self.groups.origin, self._processor.batches
        if origin is None and batches:
            fill(groups, fresh, now, dedupe)
            return
        fresh = taken(groups, fresh) if origin is None else stamping(origin, fresh, now)
        for run in dedupe.runs(fresh, now, groups, self.inbox) if dedupe else (fresh,):
            if batches:
                accept(groups, run, now)
            else:
                self.inbox += self._processor.read(groups, run)

    def refuse(self, record: Record, reason: str) -> None:
        """Make the record a dead letter with its bytes unchanged: it ended the process, or the engine failed at it."""
        self.groups.newest.refuse(record, "crash", "crash", reason)
        self.skip(record)

    def skip(self, record: Record) -> None:
        """Count the record as accepted, without effect."""
        self.pending += 1
        self.offset = record.offset() + 1

    def drain(self) -> list[Item]:
        """Take the items to process: completed groups, refused records, and messages."""
        items, self.inbox = [*self.groups.drain(), *self.inbox], []
        return items
