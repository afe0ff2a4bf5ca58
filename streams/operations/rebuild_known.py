"""Reads from an agent's own messages which input records are in a result, and which were refused.

A result has the id of its fire, the offsets of its first and last record, and the number of records. A dead letter has
the offset of its record. The id of the input topic is part of each id, so messages about an earlier topic with the same
name are recognized.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sluicegate.streams.contracts.ids import dead_ids, fire_ids
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import ConfigurationError

OurHeaders = dict[str, bytes | None]
AT_ITS_LAST = (b"count", b"until")
"""Reasons of results that were completed by their last record."""


class Result(NamedTuple):
    """The offset of the last record, and the number of records."""

    last: int
    records: int


class KnownOutputs:
    """The outputs of one input partition for records from `begin` on.

    `results` by the offset of their first record; `crossing`: by key, the last record of groups that were open at
    `begin`; `history`: the topic of groups without a result; `dead`: the offsets of refused records; `sent`: the ids
    of records that were sent on (repartition), with their output partition. By output partition: `oldest` and
    `newest`, the last records of the first and the last result that its last record completed, and `letters`, the
    first refused record. `end` is the offset after the newest record that was surely read.
    """

    __slots__ = (
        "_dead_id",
        "_fire_id",
        "begin",
        "crossing",
        "dead",
        "end",
        "history",
        "letters",
        "newest",
        "number",
        "oldest",
        "partition",
        "results",
        "sent",
    )

    def __init__(self, partition: Partition, topic_id: str, begin: int, history: str = "") -> None:
        self.partition, self.begin, self.history = partition, begin, history
        self._fire_id, self._dead_id = fire_ids(partition, topic_id), dead_ids(partition, topic_id)
        self.results: dict[int, Result] = {}
        self.crossing: dict[bytes, int] = {}
        self.dead: set[int] = set()
        self.sent: dict[str, int] = {}
        self.oldest: dict[int, int] = {}
        self.newest: dict[int, int] = {}
        self.letters: dict[int, int] = {}
        self.end = -1
        self.number = 0  # the highest of the outbox

    def take(self, record: Record, said: OurHeaders, rekeys: bool, handled: bool = False) -> None:
        """Note a message about this partition. With `handled`, a handler sends messages as well. Raises
        ConfigurationError when its headers cannot be read."""
        self.number = max(self.number, _integer(record, said, "sluicegate-seq"))
        if said.get("sluicegate-dead-stage") == b"handler" and "sluicegate-first" in said:
            return  # the history tells of the group
        if "sluicegate-first" in said:
            self._result(record, said)
        elif "sluicegate-dead-offset" in said:
            offset = _integer(record, said, "sluicegate-dead-offset")
            if said.get("sluicegate-id") == self._dead_id(offset).encode():
                self.end = max(self.end, offset + 1)
                self.dead.add(offset)
                self.letters[record.partition()] = min(self.letters.get(record.partition(), offset), offset)
        elif rekeys and (fire := said.get("sluicegate-fire")):
            self.sent[fire.decode("ascii", "replace")] = record.partition()
        elif not handled:
            raise _unsaid(record, "sluicegate-first")

    def _result(self, record: Record, said: OurHeaders) -> None:
        first, last = (_offset(record, said, name) for name in ("sluicegate-first", "sluicegate-last"))
        if said.get("sluicegate-fire") != self._fire_id(first).encode():
            return  # about an earlier topic with the same name
        self.end = max(self.end, last + 1)
        of_results = "sluicegate-dead-topic" not in said and record.topic() != self.history
        if of_results and said.get("sluicegate-reason") in AT_ITS_LAST:
            self._decided(record.partition(), last)
        if last < self.begin:
            return
        if first < self.begin:
            key = record.key() or b""
            self.crossing[key] = max(self.crossing.get(key, -1), last)
            return
        result = Result(last, _integer(record, said, "sluicegate-count"))
        if self.results.setdefault(first, result) != result:
            raise ConfigurationError(
                f"{_place(record)}: two results begin with record {first} of "
                f"{self.partition.topic}/{self.partition.number} and differ: "
                "the store had lost acknowledged writes before; what is true cannot be told from the topic"
            )

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
    results and of the history: each of its messages must name its shard."""

    def __init__(
        self, known: Sequence[KnownOutputs], results: Collection[str | None], rekeys: bool, handled: bool = False
    ) -> None:
        self._results, self._rekeys, self._handled = results, rekeys, handled
        self._known = {"{}/{}/{}/{}".format(*each.partition).encode(): each for each in known}

    def take(self, record: Record) -> None:
        """Raises ConfigurationError."""
        said: OurHeaders = dict(headers(record))
        shard = said.get("sluicegate-shard") or b""
        if not shard and record.topic() in self._results:
            raise _unsaid(record, "sluicegate-shard")
        known = self._known.get(shard.rpartition(b">")[0])
        if known is not None:
            known.take(record, said, self._rekeys, self._handled)


def _integer(record: Record, said: OurHeaders, name: str) -> int:
    text = said.get(name) or b""
    if not text.isdigit() or len(text) > 18:
        raise _unsaid(record, name)
    return int(text)


def _offset(record: Record, said: OurHeaders, name: str) -> int:
    """Of `topic/partition/offset`."""
    number = (said.get(name) or b"").rpartition(b"/")[2]
    return _integer(record, {name: number}, name)


def _unsaid(record: Record, name: str) -> ConfigurationError:
    return ConfigurationError(
        f"{_place(record)}: the message has no header {name} that can be read, so the topic does not tell which "
        "input is done; "
        "restore the store, or start the agent under another name"
    )


def _place(record: Record) -> str:
    return f"{record.topic()}/{record.partition()}/{record.offset()}"
