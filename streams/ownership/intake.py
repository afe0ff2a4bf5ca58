"""Which of a worker's partitions read nothing for now: too much is unsent or sealed, or a record cannot be decoded yet.

Only intake stands: deadlines, handlers and the relay go on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.streams.aggregation.clauses import ClauseFailed
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import DecodeWaits, SystemNotReady
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.ownership.setting import AgentRuntime

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds between two looks at a record that waits


class Unresolved:
    """The record at `offset` cannot be decoded (`text`): those before it pass, and it is looked at again at `due`.
    `at_it`: it was read and left, so that what is read next lies behind it."""

    __slots__ = ("at_it", "backoff", "due", "offset", "text")

    def __init__(self, offset: int, backoff: Backoff) -> None:
        self.offset, self.backoff = offset, backoff
        self.text, self.due, self.at_it = "", 0.0, False


class IntakePauses:
    """`unresolved` has the record that each partition waits for (`on_error: {decode: wait}`)."""

    def __init__(
        self, setting: AgentRuntime, random: Callable[[], float], clock: Callable[[], float], log: Any
    ) -> None:
        self._setting, self._random, self._clock, self._log = setting, random, clock, log
        self._paused: set[TopicPartition] = set()
        self.unresolved: dict[TopicPartition, Unresolved] = {}

    def balance(self, owners: Mapping[TopicPartition, Owner]) -> None:
        """Pause and resume: unsent rows, sealed items, records that wait. Never holds up a deadline."""
        for place, owner in owners.items():
            waits = self.unresolved.get(place)
            held = waits is not None and waits.at_it and self._clock() < waits.due
            if (owner.full or held) and place not in self._paused:
                self._setting.input.pause([place])
                self._paused.add(place)
            elif place in self._paused and owner.shard.roomy and not owner.full and not held:
                self._read_on(place, owner, waits)

    def _read_on(self, place: TopicPartition, owner: Owner, waits: Unresolved | None) -> None:
        if waits is None or not waits.at_it:
            self._setting.input.resume([place])
        else:  # what was read since was left: back to it
            try:
                self._setting.input.start(*place, owner.offset, owner.epoch)
            except SystemNotReady:
                waits.due = self._clock() + FIRST_PAUSE
                return
            waits.at_it = False
        self._paused.discard(place)

    def begins(self, place: TopicPartition) -> None:
        """The next claim starts it again, full or not, at or before what waits."""
        self._paused.discard(place)
        if waits := self.unresolved.get(place):
            waits.at_it = False

    def forget(self, place: TopicPartition) -> None:
        """Another worker has it."""
        self._paused.discard(place)
        self.unresolved.pop(place, None)

    def waits(self, place: TopicPartition, error: DecodeWaits) -> None:
        """This owner is over; the next one takes what lies before the record, and stops at it."""
        known = self.unresolved.get(place)
        if known is None or known.offset != error.offset:
            known = self.unresolved[place] = Unresolved(error.offset, Backoff(FIRST_PAUSE, LONGEST_PAUSE, self._random))
        self._later(place, known, str(error))

    def passed(self, place: TopicPartition, records: Sequence[Record]) -> Sequence[Record]:
        """Those that may be taken: all when what waited can be decoded now, or is gone; else what lies before it."""
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
        """Everything before `offset` is committed."""
        waits = self.unresolved.get(place)
        if waits is not None and offset > waits.offset:
            del self.unresolved[place]
            self._log.info("record.resolved", topic=place[0], partition=place[1], offset=waits.offset)

    def reasons(self) -> list[str]:
        """Why the worker is not ready."""
        return [
            f"waits at {topic}/{number} offset {waits.offset}: undecodable"
            for (topic, number), waits in self.unresolved.items()
        ]

    def text(self, place: TopicPartition) -> str | None:
        waits = self.unresolved.get(place)
        return None if waits is None else waits.text

    def _later(self, place: TopicPartition, waits: Unresolved, text: str) -> None:
        delay = waits.backoff.delay()
        waits.text, waits.due = text, self._clock() + delay
        where = {"topic": place[0], "partition": place[1], "offset": waits.offset}
        self._log.warning("record.unresolved", **where, text=text, retry_in=round(delay, 3))

    def _decodes(self, record: Record) -> bool:
        """A quick look; taking it may still find that it cannot."""
        try:
            processor, rule = self._setting.processor, self._setting.rule
            if rule.lets is None or not processor.batches:
                processor.decoder(rule)(record.value())  # type: ignore[arg-type]
            else:
                rule.read(record)
        except ClauseFailed:
            return True
        except Exception:
            return False
        return True
