"""Pauses the intake of partitions: too many rows are unsent, too many items are sealed, a record cannot be decoded yet,
or large records took long.

Only the intake pauses. Deadlines, handlers and the relay continue.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.streams.aggregation.clauses import ClauseFailed
from sluicegate.streams.aggregation.events_read import one_as_read
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import DecodeWaits, SystemNotReady
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.setting import AgentRuntime

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two attempts to decode a waiting record
AGAIN = 30.0  # a pause within this time after a resume counts as repeated, in seconds


class Unresolved:
    """The record at `offset` cannot be decoded; `text` is the error. The records before it are taken, and the record is
    tried again at `due`. `at_it`: it was read and discarded, so the consumer is positioned after it."""

    __slots__ = ("at_it", "backoff", "due", "offset", "text", "why")

    def __init__(self, offset: int, backoff: Backoff) -> None:
        self.offset, self.backoff = offset, backoff
        self.text, self.due, self.at_it, self.why = "", 0.0, False, ""


class IntakePauses:
    """`unresolved` has, by partition, the record that cannot be decoded (`on_error: {decode: wait}`). `slow` are
    partitions whose large records took long: a consumer of its own reads each from here on."""

    def __init__(
        self, setting: AgentRuntime, random: Callable[[], float], clock: Callable[[], float], log: Any
    ) -> None:
        self._setting, self._random, self._clock, self._log = setting, random, clock, log
        self._paused: set[TopicPartition] = set()
        self._resumed: dict[TopicPartition, float] = {}
        self._alone: set[TopicPartition] = set()  # to be resumed with a consumer of its own
        self.unresolved: dict[TopicPartition, Unresolved] = {}
        self.slow: set[TopicPartition] = set()

    def balance(self, owners: Mapping[TopicPartition, Owner]) -> None:
        """Pause and resume the intake by unsent rows, sealed items and waiting records. It never delays a deadline."""
        for place, owner in owners.items():
            waits = self.unresolved.get(place)
            waiting = waits is not None and waits.at_it and self._clock() < waits.due
            repeated = self._clock() - self._resumed.get(place, -AGAIN) < AGAIN
            # a pause may have the batch unpacked again
            slow = place in self.slow and not repeated and self._setting.input.spare()
            if (owner.full or waiting or slow) and place not in self._paused:
                self._setting.input.pause([place])
                self._paused.add(place)
                if slow or repeated or owner.shard.large:
                    self._alone.add(place)
            elif place in self._paused and owner.shard.roomy and not owner.full and not waiting:
                self._read_on(place, owner, waits)
        self.slow.clear()

    def _read_on(self, place: TopicPartition, owner: Owner, waits: Unresolved | None) -> None:
        if waits is None or not waits.at_it:
            if place in self._alone:
                self._setting.input.resume_alone(*place, owner.intake.offset, owner.intake.epoch)
            else:
                self._setting.input.resume([place])
            self._resumed[place] = self._clock()
        else:  # later records were discarded: seek back to it
            try:
                self._setting.input.start(*place, owner.intake.offset, owner.intake.epoch)
            except SystemNotReady:
                waits.due = self._clock() + FIRST_PAUSE
                return
            waits.at_it = False
        self._paused.discard(place)
        self._alone.discard(place)

    def reads(self, place: TopicPartition) -> bool:
        """Whether the partition is being read: its intake is not paused, and no record waits to be decoded."""
        return place not in self._paused and place not in self.unresolved

    def begins(self, place: TopicPartition) -> None:
        """Reset the pauses for a new claim. It resumes the partition, full or not, at or before the waiting record."""
        self._start(place)
        if waits := self.unresolved.get(place):
            waits.at_it = False

    def forget(self, place: TopicPartition) -> None:
        """Drop the partition: another worker owns it."""
        self._start(place)
        self.unresolved.pop(place, None)

    def waits(self, place: TopicPartition, error: DecodeWaits) -> None:
        """This owner ended at a record that cannot be decoded. The next owner takes the records before it and stops at
        it."""
        known = self.unresolved.get(place)
        if known is None or known.offset != error.offset:
            known = self.unresolved[place] = Unresolved(error.offset, Backoff(FIRST_PAUSE, LONGEST_PAUSE, self._random))
        known.why = error.why
        self._later(place, known, str(error))

    def passed(self, place: TopicPartition, records: Sequence[Record]) -> Sequence[Record]:
        """The records that may be taken: all of them if the waiting record can be decoded now or no longer exists,
        otherwise the records before it."""
        waits = self.unresolved.get(place)
        if waits is None or records[-1].offset() < waits.offset:
            return records
        at = next(index for index, record in enumerate(records) if record.offset() >= waits.offset)
        if not waits.at_it and self._clock() >= waits.due:
            if records[at].offset() > waits.offset or self._decodes(records[at]):
                return records
            self._later(place, waits, waits.text)
        waits.at_it = True
        return records[:at]

    def well(self, place: TopicPartition, offset: int) -> None:
        """Note that all records before `offset` are committed."""
        waits = self.unresolved.get(place)
        if waits is not None and offset > waits.offset:
            del self.unresolved[place]
            self._log.info("record.resolved", topic=place[0], partition=place[1], offset=waits.offset)

    def reasons(self) -> list[str]:
        """The reasons why the worker is not ready."""
        return [
            f"waits at {topic}/{number} offset {waits.offset}: {waits.why}"
            for (topic, number), waits in self.unresolved.items()
        ]

    def text(self, place: TopicPartition) -> str | None:
        waits = self.unresolved.get(place)
        return None if waits is None else waits.text

    def _start(self, place: TopicPartition) -> None:
        self._paused.discard(place)
        self._alone.discard(place)
        self._resumed.pop(place, None)

    def _later(self, place: TopicPartition, waits: Unresolved, text: str) -> None:
        delay = waits.backoff.delay()
        waits.text, waits.due = text, self._clock() + delay
        where = {"topic": place[0], "partition": place[1], "offset": waits.offset}
        self._log.warning("record.unresolved", **where, text=text, retry_in=round(delay, 3))

    def _decodes(self, record: Record) -> bool:
        """Whether the record can probably be decoded. The intake may still fail to decode it."""
        try:
            rule = self._setting.rule
            self._setting.processor.decoded(rule, one_as_read(rule, record))
        except ClauseFailed:
            return True
        except Exception:
            return False
        return True
