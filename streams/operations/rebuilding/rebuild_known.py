"""Reads from an agent's own messages which input records are in a result, and which were refused.

A result has the id of its fire, the offsets of its first and last record, and the number of records. A dead letter has
the offset of its record. Each id contains the id of the input topic, so messages about an earlier topic of the same
name are recognized.
"""

from collections.abc import Collection, Sequence
from sys import maxsize
from typing import NamedTuple

from sluicegate.streams.agent import Agent
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
    STATE,
    WINDOW,
    MessageHeaders,
    UnreadableHeader,
    by_name,
)
from sluicegate.streams.contracts.ids import dead_ids, fire_ids
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.values import GroupNumber, Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.reading.proof import HeaderProof
from sluicegate.streams.shadow.published import OutputPartition, Published, ShardIndex
from sluicegate.streams.shadow.refusals import timed_topics

AT_ITS_LAST = ("count", "until")
"""Reasons of results that their last record completed."""


class Result(NamedTuple):
    """The offset of a result's last record, and its number of records."""

    last: int
    records: int


class KnownOutputs:
    """The outputs of one input partition for records from `begin` on.

    `results`: results by the offset of their first record. `crossing`: for groups that were open at `begin`, the last
    record by the name of the group. `history`: the topic of groups without a result. `dead`: the offsets of refused
    records. `crashed`: the offsets of records at which workers died. `sent`: the ids of records that were sent on, with
    their output partitions. `ids`: the ids of the outputs. `end`: the offset after the newest record that was surely
    read. `published` holds the same messages for a replay of the groups.

    By output partition: `oldest` and `newest` are the last records of the first and the last result that its last
    record completed. `letters` is the first refused record. `closed` is the end (in milliseconds since 1970) and the
    first record of the last window that its watermark closed.
    """

    __slots__ = (
        "_dead_id",
        "_fire_id",
        "_immediate",
        "begin",
        "closed",
        "crashed",
        "crossing",
        "dead",
        "end",
        "history",
        "ids",
        "letters",
        "newest",
        "number",
        "oldest",
        "partition",
        "published",
        "results",
        "sent",
    )

    def __init__(self, partition: Partition, topic_id: str, begin: int, agent: Agent) -> None:
        self.partition, self.begin, self.history = partition, begin, agent.history
        window = agent.aggregation.window if agent.aggregation is not None else None
        self._immediate = window is not None and window.windower.immediate
        self._fire_id, self._dead_id = fire_ids(partition, topic_id), dead_ids(partition, topic_id)
        self.published = Published(
            partition, topic_id, maxsize, maxsize, timed_topics(agent), agent.handler is not None
        )
        self.results: dict[GroupNumber, Result] = {}
        self.crossing: dict[bytes, int] = {}
        self.dead: set[int] = set()
        self.crashed: set[int] = set()
        self.sent: dict[str, list[OutputPartition]] = {}
        self.ids: set[str] = set()
        self.oldest: dict[OutputPartition, int] = {}
        self.newest: dict[OutputPartition, int] = {}
        self.letters: dict[OutputPartition, int] = {}
        self.closed: dict[OutputPartition, tuple[int, int]] = {}
        self.end = -1
        self.number = 0  # the highest of the outbox

    @property
    def proof(self) -> HeaderProof:
        return self.published.proof

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
                if named.text(DEAD_STAGE) == "crash":
                    self.crashed.add(offset)
                place = record.topic() or "", record.partition() or 0
                self.letters[place] = min(self.letters.get(place, offset), offset)
        elif rekeys and STATE in named:
            return  # a time mark tells of no record
        elif rekeys and (fire := named.text(FIRE)):
            self.sent.setdefault(fire, []).append((record.topic() or "", record.partition() or 0))
            self.ids.add(named.text(ID))
        elif not handled:
            raise UnreadableHeader(FIRST)

    def _result(self, record: Record, named: MessageHeaders) -> None:
        first, last, number = named.offset(FIRST), named.offset(LAST), self.published.number_of(named)
        if number is None:
            return  # about an earlier topic with the same name
        self.end = max(self.end, last + 1)
        place = record.topic() or "", record.partition() or 0
        of_results = DEAD_TOPIC not in named and record.topic() != self.history
        if of_results and (self._immediate or named.text(REASON) in AT_ITS_LAST):
            self._decided(place, last)
        group = record.key() or b""
        if WINDOW in named:
            _, end = named.window()
            self._closed(place, named, of_results, (end, first))
        if last < self.begin:
            return
        if first < self.begin:
            self.crossing[group] = max(self.crossing.get(group, -1), last)
            return
        result = Result(last, named.integer(COUNT))
        if self.results.setdefault(number, result) != result:
            raise ConfigurationError(
                f"{_place(record)}: two results begin with record {first} of "
                f"{self.partition.topic}/{self.partition.number} and differ: "
                "the store had lost acknowledged writes before; the topic does not show which of them is right"
            )

    def _closed(self, place: OutputPartition, named: MessageHeaders, of_results: bool, window: tuple[int, int]) -> None:
        """Records the window that this message closed."""
        by, rests = named.closed()
        if any(number < 0 for number in rests):
            raise UnreadableHeader(CLOSED)
        if rests:
            self.end = max(self.end, rests[0])
        if of_results and by in ("event", "idle"):
            self.closed[place] = max(self.closed.get(place, window), window)

    def _decided(self, place: OutputPartition, last: int) -> None:
        self.oldest[place] = min(self.oldest.get(place, last), last)
        self.newest[place] = max(self.newest.get(place, last), last)

    def rekeyed(self, begin: int, high: int) -> None:
        """Determines which records were sent on."""
        sent, identify = self.sent, self._fire_id
        for offset in range(begin, high):
            for place in sent.get(identify(offset), ()):
                self._decided(place, offset)
                self.end = max(self.end, offset + 1)


class Messages:
    """Passes each message of an agent to the KnownOutputs of its input partition. `results` are the topics of results
    and of the history."""

    def __init__(
        self, known: Sequence[KnownOutputs], results: Collection[str | None], rekeys: bool, handled: bool = False
    ) -> None:
        self._rekeys, self._handled = rekeys, handled
        self.index = ShardIndex({outputs.partition: outputs for outputs in known}, results)

    def take(self, record: Record, proof: HeaderProof) -> None:
        """`proof` is that of the output partition. Raises ConfigurationError."""
        named = by_name(headers(record))
        try:
            known = self.index.find(record, named, proof)
            if known is not None:
                known.take(record, named, self._rekeys, self._handled)
                if not self._rekeys:
                    topic, number = record.topic() or "", record.partition() or 0
                    known.published.take(topic, number, _place(record), record.key(), record.value(), named)
        except UnreadableHeader as error:
            raise ConfigurationError(
                f"{_place(record)}: the message has no header {error.name} that can be read, so the topic does not "
                "tell which input is done; restore the store, or start the agent under another name"
            ) from None


def _place(record: Record) -> str:
    return f"{record.topic()}/{record.partition()}/{record.offset()}"
