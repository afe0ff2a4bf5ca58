"""Reads from an agent's own messages which input records are in a result, and which were refused.

A result has the id of its fire, the offsets of its first and last record, and the number of records. A dead letter has
the offset of its record. The id of the input topic is part of each id, so messages about an earlier topic with the same
name are recognized.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sluicegate.streams.contracts.headers import (
    CLOSED,
    COUNT,
    DEAD_OFFSET,
    DEAD_STAGE,
    DEAD_TOPIC,
    FIRE,
    FIRST,
    ID,
    LAST,
    NUMBER,
    REASON,
    SHARD,
    WINDOW,
    MessageHeaders,
    UnreadableHeader,
    by_name,
)
from sluicegate.streams.contracts.ids import dead_ids, fire_ids
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.windows.tumbling import name

AT_ITS_LAST = ("count", "until")
"""Reasons of results that were completed by their last record."""
AFTER_ITS_TIME = (b"limit", b"too-large", b"reducer")
"""Reasons of the stage `aggregate` by which a record is refused after its event time was read."""


class Result(NamedTuple):
    """The offset of the last record, and the number of records."""

    last: int
    records: int


class KnownOutputs:
    """The outputs of one input partition for records from `begin` on.

    `results` by the offset of their first record; `crossing`: by the name of the group, the last record of groups that
    were open at `begin`; `history`: the topic of groups without a result; `dead`: the offsets of refused records;
    `sent`: the ids of records that were sent on (repartition), with their output partition. `silences` are the
    watermarks that silence set, each with the offset of the next record then; `timed` are the refused records that
    moved the watermark. `end` is the offset after the newest record that was surely read. `proof` is that of the input.

    By output partition: `oldest` and `newest` are the last records of the first and the last result that its last
    record completed, `letters` the first refused record, `closed` the end (in milliseconds since 1970) and the first
    record of the last window that its watermark closed.
    """

    __slots__ = (
        "_dead_id",
        "_fire_id",
        "begin",
        "closed",
        "crossing",
        "dead",
        "end",
        "history",
        "letters",
        "newest",
        "number",
        "oldest",
        "partition",
        "proof",
        "results",
        "sent",
        "silences",
        "timed",
    )

    def __init__(
        self, partition: Partition, topic_id: str, begin: int, history: str = "", proof: HeaderProof | None = None
    ) -> None:
        self.partition, self.begin, self.history = partition, begin, history
        self.proof = HeaderProof() if proof is None else proof
        self._fire_id, self._dead_id = fire_ids(partition, topic_id), dead_ids(partition, topic_id)
        self.results: dict[int, Result] = {}
        self.crossing: dict[bytes, int] = {}
        self.dead: set[int] = set()
        self.sent: dict[str, int] = {}
        self.oldest: dict[int, int] = {}
        self.newest: dict[int, int] = {}
        self.letters: dict[int, int] = {}
        self.closed: dict[int, tuple[int, int]] = {}
        self.silences: set[tuple[int, int]] = set()
        self.timed: set[int] = set()
        self.end = -1
        self.number = 0  # the highest of the outbox

    def take(self, record: Record, named: MessageHeaders, rekeys: bool, handled: bool = False) -> None:
        """Note a message about this partition. With `handled`, a handler sends messages as well. Raises
        UnreadableHeader, and ConfigurationError for a result that contradicts another one."""
        self.number = max(self.number, named.integer(NUMBER))
        if named.text(DEAD_STAGE) == "handler" and FIRST in named:
            return  # the history tells of the group
        if FIRST in named:
            self._result(record, named)
        elif DEAD_OFFSET in named:
            offset = named.dead_offset()
            if named.text(ID) == self._dead_id(offset):
                self.end = max(self.end, offset + 1)
                self.dead.add(offset)
                if _moved_the_watermark(named):
                    self.timed.add(offset)
                self.letters[record.partition()] = min(self.letters.get(record.partition(), offset), offset)
        elif rekeys and (fire := named.text(FIRE)):
            self.sent[fire] = record.partition()
        elif not handled:
            raise UnreadableHeader(FIRST)

    def _result(self, record: Record, named: MessageHeaders) -> None:
        first, last = named.offset(FIRST), named.offset(LAST)
        if named.text(FIRE) != self._fire_id(first):
            return  # about an earlier topic with the same name
        self.end = max(self.end, last + 1)
        of_results = DEAD_TOPIC not in named and record.topic() != self.history
        if of_results and named.text(REASON) in AT_ITS_LAST:
            self._decided(record.partition(), last)
        group = record.key() or b""
        if WINDOW in named:
            start, end = named.window()
            group = name(start, group)
            self._closed(record, named, of_results, (end, first))
        if last < self.begin:
            return
        if first < self.begin:
            self.crossing[group] = max(self.crossing.get(group, -1), last)
            return
        result = Result(last, named.integer(COUNT))
        if self.results.setdefault(first, result) != result:
            raise ConfigurationError(
                f"{_place(record)}: two results begin with record {first} of "
                f"{self.partition.topic}/{self.partition.number} and differ: "
                "the store had lost acknowledged writes before; what is true cannot be told from the topic"
            )

    def _closed(self, record: Record, named: MessageHeaders, of_results: bool, window: tuple[int, int]) -> None:
        """Note what closed a window."""
        by, rests = named.closed()
        if any(number < 0 for number in rests):
            raise UnreadableHeader(CLOSED)
        if rests:
            self.end = max(self.end, rests[0])
        if by == "idle" and len(rests) == 2:
            self.silences.add((rests[0], rests[1]))
        if of_results and by in ("event", "idle"):
            place = record.partition()
            self.closed[place] = max(self.closed.get(place, window), window)

    def _decided(self, place: int, last: int) -> None:
        self.oldest[place] = min(self.oldest.get(place, last), last)
        self.newest[place] = max(self.newest.get(place, last), last)

    def rekeyed(self, begin: int, high: int) -> None:
        """Find out which records were sent on."""
        sent, identify = self.sent, self._fire_id
        for offset in range(begin, high):
            place = sent.get(identify(offset))
            if place is not None:
                self._decided(place, offset)
                self.end = max(self.end, offset + 1)

    def went_on(self, offset: int) -> bool:
        return self._fire_id(offset) in self.sent


class Messages:
    """Passes each message of an agent to the KnownOutputs of its input partition. `results` are the topics of
    results and of the history: each of its messages must name its shard. A message that its `proof` does not believe is
    of another program: `unproven` counts those that name one of the partitions."""

    def __init__(
        self, known: Sequence[KnownOutputs], results: Collection[str | None], rekeys: bool, handled: bool = False
    ) -> None:
        self._results, self._rekeys, self._handled = results, rekeys, handled
        self.unproven = 0
        self._known = {"{}/{}/{}/{}".format(*each.partition).encode(): each for each in known}

    def take(self, record: Record, proof: HeaderProof) -> None:
        """`proof` is that of the output partition. Raises ConfigurationError."""
        named = by_name(headers(record))
        shard = named.raw(SHARD)
        if not proof.believes(record):
            self.unproven += shard.rpartition(b">")[0] in self._known
            return
        known = self._known.get(shard.rpartition(b">")[0])
        try:
            if not shard and record.topic() in self._results:
                raise UnreadableHeader(SHARD)
            if known is not None:
                known.take(record, named, self._rekeys, self._handled)
        except UnreadableHeader as error:
            raise ConfigurationError(
                f"{_place(record)}: the message has no header {error.name} that can be read, so the topic does not "
                "tell which input is done; restore the store, or start the agent under another name"
            ) from None


def _moved_the_watermark(named: MessageHeaders) -> bool:
    """Whether a dead letter was refused after its event time was read."""
    stage, reason, clause = named.failure()
    return (stage == b"aggregate" and reason in AFTER_ITS_TIME) or (stage == b"expression" and clause == b"until")


def _place(record: Record) -> str:
    return f"{record.topic()}/{record.partition()}/{record.offset()}"
