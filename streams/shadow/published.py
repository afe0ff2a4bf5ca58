"""What an agent published of one input partition, read from the headers of its messages.

A result has the fire's id, the offsets of its first and last record, their number and its reason. Its document has the
times at which its owner opened and closed the group. A dead letter has the offset of its record. The id of the input
topic is part of each id, so messages about an earlier topic of the same name are recognized.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from sluicegate.schemas.json import UNREADABLE
from sluicegate.streams.contracts.ids import dead_ids, fire_ids
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.units import moment

NATURAL = ("count", "until")
"""Reasons of a group that its last record completed."""

OutputHeaders = Mapping[str, bytes | None]
OutputPartition = tuple[str, int]


class PublishedOutput(NamedTuple):
    """One message. `dead` holds the stage, the reason and the clause of a dead letter, else it is empty."""

    topic: str
    key: bytes | None
    value: bytes | None
    dead: tuple[bytes, ...]


class PublishedResult(msgspec.Struct, gc=False):
    """One group that ended: what its messages say, by their ids. `opened` and `closed` are its owner's times, with the
    milliseconds that the document has; None: its document leaves them out. `differing`: two messages have one id and
    different contents."""

    key: bytes
    first: int
    last: int
    count: int
    reason: str
    outputs: dict[str, PublishedOutput]
    opened: float | None = None
    closed: float | None = None
    differing: bool = False

    @property
    def natural(self) -> bool:
        return self.reason in NATURAL


class _DocumentTimes(msgspec.Struct):
    opened_at: str | None = None
    closed_at: str | None = None


_times = msgspec.json.Decoder(_DocumentTimes).decode


class Published:
    """The messages about `partition` that were decided below `offset` and up to the outbox number `number`.

    `results` by the offset of their first record, `letters` by the offset of their record. By output partition:
    `oldest` is the lowest last record of a result that its last record completed, `oldest_letter` the lowest record of
    a dead letter. `timed` names the topics whose documents hold the group's times. `handled`: a handler sends messages
    as well, which tell nothing of groups; `sent` are those that were read, and its dead letters, by fire id and id.
    """

    def __init__(
        self,
        partition: Partition,
        topic_id: str,
        offset: int,
        number: int,
        timed: frozenset[str],
        handled: bool = False,
    ) -> None:
        self.partition, self.number, self._offset, self._timed = partition, number, offset, timed
        self._handled = handled
        self._fire_id, self._dead_id = fire_ids(partition, topic_id), dead_ids(partition, topic_id)
        self._prefix = "{}/{}/{}/{}>".format(*partition).encode()
        self.results: dict[int, PublishedResult] = {}
        self.letters: dict[int, PublishedOutput] = {}
        self.sent: dict[str, dict[str, PublishedOutput]] = {}
        self.oldest: dict[OutputPartition, int] = {}
        self.oldest_letter: dict[OutputPartition, int] = {}
        self.dead_rows = 0

    def row(self, row: OutboxRow) -> None:
        """A row of the outbox that was not sent yet, or that the broker refused, counts as published."""
        self.take(row.topic, row.partition, "the outbox", row.key, row.value, dict(row.headers))

    def take(
        self, topic: str, number: int, place: str, key: bytes | None, value: bytes | None, said: OutputHeaders
    ) -> None:
        """A message of another partition is ignored. Raises ConfigurationError when its headers cannot be read."""
        if not (said.get("sluicegate-shard") or b"").startswith(self._prefix):
            return
        if _integer(place, said, "sluicegate-seq") > self.number:
            return
        stage, reason, clause = (said.get(f"sluicegate-dead-{name}") or b"" for name in ("stage", "reason", "clause"))
        output = PublishedOutput(topic, key, value, (stage, reason, clause) if reason else ())
        if stage == b"handler":  # the history tells of the group
            self._sent(output, said)
        elif "sluicegate-first" in said:
            self._result(place, (topic, number), output, said)
        elif "sluicegate-dead-offset" in said:
            offset = (
                _offset(place, said, "sluicegate-dead-read")
                if "sluicegate-dead-read" in said
                else _integer(place, said, "sluicegate-dead-offset")
            )
            if said.get("sluicegate-id") == self._dead_id(offset).encode() and offset < self._offset:
                self.letters.setdefault(offset, output)
                self.oldest_letter[topic, number] = min(self.oldest_letter.get((topic, number), offset), offset)
        elif self._handled:
            self._sent(output, said)
        else:
            raise _unsaid(place, "sluicegate-first")

    def _sent(self, output: PublishedOutput, said: OutputHeaders) -> None:
        fire, id = ((said.get(f"sluicegate-{name}") or b"").decode("ascii", "replace") for name in ("fire", "id"))
        self.sent.setdefault(fire, {}).setdefault(id, output)

    def _result(self, place: str, within: OutputPartition, output: PublishedOutput, said: OutputHeaders) -> None:
        first, last = _offset(place, said, "sluicegate-first"), _offset(place, said, "sluicegate-last")
        if said.get("sluicegate-fire") != self._fire_id(first).encode() or last >= self._offset:
            return
        count, reason = (
            _integer(place, said, "sluicegate-count"),
            (said.get("sluicegate-reason") or b"").decode("ascii", "replace"),
        )
        made = PublishedResult(output.key or b"", first, last, count, reason, {})
        known = self.results.setdefault(first, made)
        if known.natural and "sluicegate-dead-topic" not in said:
            self.oldest[within] = min(self.oldest.get(within, last), last)
        if known.opened is None:
            self._note_times(known, output, said)
        earlier = known.outputs.setdefault((said.get("sluicegate-id") or b"").decode("ascii", "replace"), output)
        if earlier != output or (known.last, known.count, known.reason) != (last, count, reason):
            known.differing = True

    def _note_times(self, known: PublishedResult, output: PublishedOutput, said: OutputHeaders) -> None:
        if output.topic in self._timed and output.value is not None:
            try:
                times = _times(output.value)
            except UNREADABLE:
                return
            known.opened, known.closed = moment(times.opened_at or ""), moment(times.closed_at or "")
        elif "sluicegate-dead-timestamp" in said:
            known.opened = moment((said["sluicegate-dead-timestamp"] or b"").decode("ascii", "replace"))


def _integer(place: str, said: OutputHeaders, name: str) -> int:
    text = said.get(name) or b""
    if not text.isdigit() or len(text) > 18:
        raise _unsaid(place, name)
    return int(text)


def _offset(place: str, said: OutputHeaders, name: str) -> int:
    """Of `topic/partition/offset`."""
    return _integer(place, {name: (said.get(name) or b"").rpartition(b"/")[2]}, name)


def _unsaid(place: str, name: str) -> ConfigurationError:
    return ConfigurationError(
        f"{place}: the message has no header {name} that can be read, so what was published cannot be compared"
    )
