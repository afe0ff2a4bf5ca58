"""Probes partitions whose last owner probably died at its first fetch: a process of its own fetches them first.

A batch of records that is small in the log may exceed the memory when the client decompresses it. It ends the process
before the first record arrives, and with it all partitions of the process. So the suspicion is raised easily: the
previous owner died soon after its claim, without a commit that moved the offset; or the kernel ended the process before
for lack of memory. A kill for any other reason also raises the first one, and costs a probe of about a second. The
proof is a child process that dies (sluicegate.connectors.kafka.probe).

If a batch cannot be fetched, a child process fetches the records before it. Then the partition is claimed again, the
batch is the next one, and the partition halts. The crash mark stores the halt, so the next owner also probes first: it
continues by itself if it has more memory.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.streams.contracts.stores import FetchesApart, Probe, TopicPartition
from sluicegate.streams.errors import Unfetchable
from sluicegate.streams.ownership.owner import Owner

MOST = 2  # probes at once
WHY = "the last owner may have died while it unpacked these records: a process of its own fetches them first"
WHAT_TO_DO = (
    "unpacked, it may be larger than the memory; give the worker more, then `sluicegate accept-gap` has it fetched "
    "again, or with --to OFFSET goes on behind it: OFFSET is one more than the lastOffset of this batch, which "
    "`kafka-dump-log.sh --files SEGMENT.log` shows on its broker"
)
FAILED = "the process that fetches the partition first shows nothing; this one fetches it now, and may end at it"


class Probing:
    """`waiting` are the owners that wait for a probe, in order. `probes_first`: the kernel ended the process before for
    lack of memory. Any of its partitions may be the cause, so each one with records to fetch is probed once."""

    def __init__(self, source: FetchesApart, log: Any, probes_first: bool = False) -> None:
        self._source, self._log, self._probes_first = source, log, probes_first
        self._passed: set[TopicPartition] = set()
        self.waiting: dict[TopicPartition, Owner] = {}
        self._running: dict[TopicPartition, Probe] = {}
        self._suspects: set[TopicPartition] = set()  # observed by this process
        self._bounded: set[TopicPartition] = set()

    def suspect(self, place: TopicPartition) -> None:
        """Probe before the next owner fetches."""
        self._suspects.add(place)

    def forget(self, place: TopicPartition) -> None:
        self._suspects.discard(place)
        self._end(place)
        self._set(place, -1)

    def passed(self, owner: Owner, monotonic: float) -> bool:
        """Whether this process may fetch the partition, up to its bound. False: the probe is running. Raises
        Unfetchable after the halt is durable, and errors of the store."""
        place = owner.place
        if self.waiting.get(place) is not owner:
            self._end(place)
            self._set(place, -1)
            if not self._suspected(owner):
                self._passed.add(place)
                return True
            self.waiting[place] = owner
        if place not in self._running and len(self._running) < MOST:
            offset = owner.intake.offset
            self._log.warning("partition.probed", topic=place[0], partition=place[1], offset=offset, text=WHY)
            self._running[place] = self._source.probe(*place, offset)
        fetchable = self._running[place].result() if place in self._running else None
        if fetchable is None:
            return False
        self._end(place)
        if fetchable.failure:
            facts = {"topic": place[0], "partition": place[1], "offset": owner.intake.offset}
            self._log.warning("partition.probe_failed", **facts, error=fetchable.failure, text=FAILED)
        if fetchable.why and fetchable.until <= owner.intake.offset:
            owner.halt(monotonic)
            raise Unfetchable(
                f"the batch of records at offset {owner.intake.offset} cannot be fetched: {fetchable.why}; {WHAT_TO_DO}"
            )
        self._suspects.discard(place)
        self._passed.add(place)
        self._set(place, fetchable.until)
        return True

    def _suspected(self, owner: Owner) -> bool:
        unread = owner.facts.high > owner.intake.offset
        first = self._probes_first and unread and owner.place not in self._passed
        return first or owner.marks.suspected or owner.place in self._suspects

    def read_apart(self, owners: Mapping[TopicPartition, Owner]) -> Iterator[Owner]:
        """The owners that have read up to their bounds and committed. The records after the bound are probed again."""
        for place in list(self._bounded):
            owner = owners.get(place)
            if owner is not None and not owner.intake.pending and self._source.bound_reached(*place):
                self._suspects.add(place)
                yield owner

    def text(self, place: TopicPartition) -> str | None:
        return WHY if place in self.waiting else None

    def _end(self, place: TopicPartition) -> None:
        self.waiting.pop(place, None)
        if (running := self._running.pop(place, None)) is not None:
            running.close()

    def _set(self, place: TopicPartition, until: int) -> None:
        if until >= 0 or place in self._bounded:
            self._source.bound(*place, until)
        if until >= 0:
            self._bounded.add(place)
        else:
            self._bounded.discard(place)
