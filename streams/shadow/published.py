"""The published outputs of an agent for one input partition, read from the headers of its messages.

A result has the fire's id, the offsets of its first and last record, their number and its reason. Its document has the
times at which its owner opened and closed the group. A dead letter has the offset of its record. Each id contains the
id of the input topic, so messages about an earlier topic of the same name are recognized.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from sluicegate.streams.aggregation.events import EARLY, MERGED
from sluicegate.streams.contracts.headers import (
    CLOSED,
    COUNT,
    DEAD_OFFSET,
    DEAD_STAGE,
    DEAD_TIMESTAMP,
    DEAD_TOPIC,
    FIRE,
    FIRST,
    ID,
    LAST,
    NUMBER,
    REASON,
    REVISION,
    SHARD,
    WINDOW,
    MessageHeaders,
    UnreadableHeader,
    by_name,
)
from sluicegate.streams.contracts.ids import dead_ids, fire_ids
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import GroupNumber, OutboxRow, Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.units import moment

NATURAL = ("count", "until")
"""Reasons of a group that its last record completed."""

OutputPartition = tuple[str, int]
T = TypeVar("T")


class PublishedOutput(NamedTuple):
    """One message. `dead` holds the stage, the reason and the clause of a dead letter, else it is empty."""

    topic: str
    key: bytes | None
    value: bytes | None
    dead: tuple[bytes, ...]


class PublishedWindow(NamedTuple):
    """The window of a group, from its headers: its start and end in milliseconds since 1970, and `by`, the cause that
    closed it. If the owner's clock closed it, `next` is the offset of the record that would have come next (else -1).
    For silence, `watermark` is the watermark that it set (else -1)."""

    start: int
    end: int
    revision: int
    by: str
    next: int = -1
    watermark: int = -1


class PublishedResult(msgspec.Struct, gc=False):
    """One group that ended, or an early result: its messages by their ids. `opened` and `closed` are its owner's times,
    as exact as the document's milliseconds; None: its document leaves them out. `differing`: two messages have one id
    and different contents. `window` is None without windows."""

    number: GroupNumber
    key: bytes
    first: int
    last: int
    count: int
    reason: str
    outputs: dict[str, PublishedOutput]
    opened: float | None = None
    closed: float | None = None
    differing: bool = False
    window: PublishedWindow | None = None

    @property
    def natural(self) -> bool:
        """Whether its last record completed it."""
        return self.reason in NATURAL

    @property
    def replayable(self) -> bool:
        """Whether the input shows its end: a record ended it, or the watermark together with silence."""
        by_time = self.window is not None and self.window.by in ("event", "idle")
        return self.natural or by_time or self.reason == MERGED

    @property
    def goes_on(self) -> bool:
        """Whether it is an early result."""
        return self.reason == EARLY


class ShardIndex(Generic[T]):
    """Finds the value of the input partition that a message is about. A message in one of `topics` must name its shard,
    except a copy that `dead retry` sent. A message without proof comes from another program; `unproven` counts those
    that name one of the partitions."""

    def __init__(self, values: Mapping[Partition, T], topics: Collection[str | None]) -> None:
        self._values = {"{}/{}/{}/{}".format(*partition).encode(): value for partition, value in values.items()}
        self._topics, self.unproven = topics, 0

    def find(self, record: Record, named: MessageHeaders, proof: HeaderProof) -> T | None:
        """`proof` is that of the output partition. Raises UnreadableHeader for a message without a shard."""
        shard = named.raw(SHARD)
        value = self._values.get(shard.rpartition(b">")[0])
        if not proof.believes(record):
            self.unproven += value is not None
            return None
        if not shard and record.topic() in self._topics and not named.retried:
            raise UnreadableHeader(SHARD)
        return value


class _DocumentTimes(msgspec.Struct):
    opened_at: str | None = None
    closed_at: str | None = None


_times = msgspec.json.Decoder(_DocumentTimes).decode


class Published:
    """The messages about `partition` that were decided below `offset` and up to the outbox number `number`.

    `results` by the number of their group, `letters` by the offset of their record. By output partition: `oldest` is
    the lowest last record of a result that its last record completed, `oldest_letter` the lowest record of a dead
    letter. `timed` reads the topics whose documents hold the group's times, as JSON. `handled`: a handler sends
    messages too, or records are sent on; such messages do not describe groups. `sent` are these messages and their dead
    letters, by fire id and id. `proof` decides which records of the partition its worker believed.
    """

    def __init__(
        self,
        partition: Partition,
        topic_id: str,
        offset: int,
        number: int,
        timed: Mapping[str, Callable[[bytes], bytes]],
        handled: bool = False,
        proof: HeaderProof | None = None,
    ) -> None:
        self.partition, self.number, self._offset, self._timed = partition, number, offset, timed
        self._handled, self.proof = handled, HeaderProof() if proof is None else proof
        self._fire_id, self._dead_id = fire_ids(partition, topic_id), dead_ids(partition, topic_id)
        self._prefix = "{}/{}/{}/{}>".format(*partition).encode()
        self.results: dict[GroupNumber, PublishedResult] = {}
        self.letters: dict[int, PublishedOutput] = {}
        self.sent: dict[str, dict[str, PublishedOutput]] = {}
        self.oldest: dict[OutputPartition, int] = {}
        self.oldest_letter: dict[OutputPartition, int] = {}
        self.dead_rows = 0

    def row(self, row: OutboxRow) -> None:
        """Takes a row of the outbox that was not sent yet, or that the broker refused, as published."""
        self.take(row.topic, row.partition, "the outbox", row.key, row.value, by_name(row.headers))

    def take(
        self, topic: str, number: int, place: str, key: bytes | None, value: bytes | None, named: MessageHeaders
    ) -> None:
        """Takes a message; a message about another partition is ignored. Raises ConfigurationError when its headers
        cannot be read."""
        if not named.raw(SHARD).startswith(self._prefix):
            return
        try:
            if named.integer(NUMBER) <= self.number:
                self._take((topic, number), published(topic, key, value, named), named)
        except UnreadableHeader as error:
            raise ConfigurationError(
                f"{place}: the message has no header {error.name} that can be read, so what was published cannot be "
                "compared"
            ) from None

    def _take(self, within: OutputPartition, output: PublishedOutput, named: MessageHeaders) -> None:
        if named.text(DEAD_STAGE) == "handler":  # the history records the group
            self._sent(output, named)
        elif FIRST in named:
            self._result(within, output, named)
        elif DEAD_OFFSET in named:
            offset = named.dead_offset()
            if named.text(ID) == self._dead_id(offset) and offset < self._offset:
                self.letters.setdefault(offset, output)
                self.oldest_letter[within] = min(self.oldest_letter.get(within, offset), offset)
        elif self._handled:
            self._sent(output, named)
        else:
            raise UnreadableHeader(FIRST)

    def _sent(self, output: PublishedOutput, named: MessageHeaders) -> None:
        self.sent.setdefault(named.text(FIRE), {}).setdefault(named.text(ID), output)

    def _result(self, within: OutputPartition, output: PublishedOutput, named: MessageHeaders) -> None:
        first, last, window = named.offset(FIRST), named.offset(LAST), _window(named)
        number = self.number_of(named)
        if number is None or last >= self._offset:
            return
        count, reason = named.integer(COUNT), named.text(REASON)
        result = PublishedResult(number, output.key or b"", first, last, count, reason, {}, window=window)
        known = self.results.setdefault(number, result)
        if known.natural and DEAD_TOPIC not in named:
            self.oldest[within] = min(self.oldest.get(within, last), last)
        if known.opened is None:
            self._note_times(known, output, named)
        earlier = known.outputs.setdefault(named.text(ID), output)
        if earlier != output or (known.last, known.count, known.reason) != (last, count, reason):
            known.differing = True

    def number_of(self, named: MessageHeaders) -> GroupNumber | None:
        """The number of the group of a result. None: the result belongs to an earlier topic of the same name. Raises
        UnreadableHeader."""
        fire, first, window = named.text(FIRE), named.offset(FIRST), _window(named)
        numbers: list[GroupNumber] = [first]
        if window is not None and window.revision > 1:
            numbers = [(first, window.start, window.revision)]
        elif window is not None:
            numbers += [(first, window.start), named.offset(LAST)]
        elif REVISION in named and (revision := named.integer(REVISION)) > 1:
            numbers = [(first, 0, revision)]
        return next((number for number in numbers if self._fire_id(number) == fire), None)

    def revised(self) -> bool:
        """Whether groups had early results."""
        return any(live.goes_on for live in self.results.values())

    def ends(self, windowed: bool) -> Mapping[GroupNumber, PublishedResult]:
        """The results without early ones, by their number. Without windows, the last result of each first record."""
        last = (live for live in self.results.values() if not live.goes_on)
        return {live.number if windowed else live.first: live for live in last}

    def document(self, live: PublishedResult) -> dict[str, Any]:
        """The first readable document of a result; empty if it has none."""
        for output in live.outputs.values():
            if output.topic in self._timed and output.value is not None and not output.dead:
                try:
                    return dict(msgspec.json.decode(self._timed[output.topic](output.value)))
                except Exception:
                    continue
        return {}

    def _note_times(self, known: PublishedResult, output: PublishedOutput, named: MessageHeaders) -> None:
        if output.topic in self._timed and output.value is not None:
            try:
                times = _times(self._timed[output.topic](output.value))
            except Exception:
                return
            known.opened, known.closed = moment(times.opened_at or ""), moment(times.closed_at or "")
        elif DEAD_TIMESTAMP in named:
            known.opened = moment(named.text(DEAD_TIMESTAMP))


def published(topic: str, key: bytes | None, value: bytes | None, named: MessageHeaders) -> PublishedOutput:
    """The message with these headers."""
    failure = named.failure()
    return PublishedOutput(topic, key, value, failure if failure[1] else ())


def _window(named: MessageHeaders) -> PublishedWindow | None:
    if WINDOW not in named:
        return None
    by, rests = named.closed() if CLOSED in named else ("", ())
    return PublishedWindow(*named.window(), named.integer(REVISION), by, *rests[:2])
