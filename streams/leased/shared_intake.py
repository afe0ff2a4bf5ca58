"""`scope: shared`, first half: an owner puts its records into the one buffer that all workers fill.

The insert moves the source's watermark in its own transaction, before the owner's commit moves the offset: what is read again after a
crash lies below the watermark and is left out, whoever reads it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from streams import failpoints
from streams.aggregation.accept import parsed, refuse
from streams.aggregation.events import Event, Refused
from streams.aggregation.groups import Groups
from streams.aggregation.rule import Rule
from streams.engine.dedupe import IdRule
from streams.engine.handling import Item
from streams.errors import WatermarkMoved
from streams.handlers.values import Message
from streams.leased.contracts import NOT_KEPT, AggregatorBuffer
from streams.leased.shared_fires import SharedFires
from streams.leased.shared_records import LONGEST_KEY, group_of, packed, packs
from streams.leased.values import Entry, Gate, Progress, SealedBatch
from streams.observe.metrics import Meter
from streams.record import Record

AT_ONCE = 1_000  # records of one insert with ids: a store that runs one script at a time is held up no longer
INSERT_BYTES = 8 * 1024 * 1024  # of one insert
NAMES = 50_000  # keys whose groups' names are at hand

Place = tuple[str, int]


class Source(NamedTuple):
    """Of a partition, as far as this process knows: topic id (streams.values.Source.name) and watermark, under the claim of which
    `identify` makes the ids."""

    identify: Callable[[int], str]
    topic_id: str
    watermark: int


class SharedIntake:
    """Takes the place of Handling. `source_of` asks the store for what ids of a partition are made of; `time` gives seconds since 1970: it
    only says when a record came, never what wins. `at_once` records are an insert."""

    batches = session = False

    def __init__(
        self, name: str, rule: Rule, ids: IdRule | None, gate: Gate, buffer: AggregatorBuffer, fires: SharedFires,
        source_of: Callable[[Place], str], meter: Meter, time: Callable[[], float],
    ) -> None:  # fmt: skip
        self._name, self._rule, self._ids, self._gate, self._buffer, self.fires = name, rule, ids, gate, buffer, fires
        self._source_of, self._meter, self._time = source_of, meter, time
        self._keep = timedelta(seconds=ids.setting.horizon) if ids else NOT_KEPT
        self.at_once = AT_ONCE if ids else buffer.at_once
        self._sources: dict[Place, Source] = {}
        self._names: dict[bytes | None, str] = {}

    def step(self, place: Place, offset: int) -> int:
        """As Failures.step: nothing here may fail."""
        return 0

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records with `value` (name of their group; with `dedupe` that and their id or None), or refused ones."""
        items: list[Item] = []
        known = self._names.get
        for record in records:
            try:
                key, _, _ = parsed(groups, record)
            except Exception as error:
                refuse(groups, record, error)
            else:
                if self._ids is None and (group := known(key)) is not None:
                    items.append(Message(group, record))
                    continue
                if (named := self._named(groups, record, key)) is not None:
                    items.append(Message(named, record))
                    continue
            items += [event for event in groups.drain() if isinstance(event, Refused)]
        return items

    def _named(self, groups: Groups, record: Record, key: bytes | None) -> str | tuple[str, bytes | None] | None:
        """None: the record was refused."""
        group = None if key is None else group_of(key)
        if key is None or group is None or len(group) > LONGEST_KEY:
            groups.refuse_key(record, key, LONGEST_KEY)
            return None
        if self._ids is None:
            if len(self._names) >= NAMES:
                self._names.clear()
            self._names[key] = group
            return group
        identity = self._ids.identity(record)
        if identity is None and self._ids.refuses(record):
            self._ids.refuse(groups, record)
            return None
        return group, identity

    def run(self, items: Sequence[Item], identify: Callable[[int], str], session: None, place: Place) -> list[Event]:
        """Into the buffer with them; what is left was refused, or fired when the scope was changed. Raises PersistenceError,
        SystemNotReady, and the Halt of a batch."""
        if self.fires.halt is not None:
            raise self.fires.halt
        for part in _parts([item for item in items if isinstance(item, Message)], self.at_once):
            self._put(place, part, identify)
        return [item for item in items if not isinstance(item, Message)]

    def _put(self, place: Place, messages: Sequence[Message], identify: Callable[[int], str]) -> None:
        _, topic_id, stands = self._source(place, identify)
        while fresh := _from(messages, stands):
            moves = Progress(topic_id, place[1], stands, fresh[-1].offset + 1)
            try:
                batches = self._insert(fresh, moves)
            except WatermarkMoved as moved:
                stands = moved.next
                continue
            stands = moves.next
            if failpoints.armed:
                failpoints.hit("shared-inserted")
            self.fires.take(batches)
        self._sources[place] = Source(identify, topic_id, stands)

    def _insert(self, fresh: Sequence[Message], moves: Progress) -> Sequence[SealedBatch]:
        """Packed, unless ids say which ones came before."""
        if self._ids is None:
            if failpoints.unsafe("watermark"):
                moves = moves._replace(expected=self._buffer.watermark(self._name, moves.topic_id, moves.partition))
            return self._buffer.insert_packs(self._name, packs(fresh, moves.topic_id, self._time()), self._gate, moves)
        progress = None if failpoints.unsafe("watermark") else moves
        entries = list(self._entries(fresh, moves.topic_id))
        filled = self._buffer.insert_and_seal(self._name, entries, self._gate, progress, self._keep)
        if filled.result.duplicates:
            self._meter.count("records_duplicate", filled.result.duplicates)
        return filled.batches

    def _source(self, place: Place, identify: Callable[[int], str]) -> Source:
        known = self._sources.get(place)
        if known is None or known.identify is not identify:
            topic_id = self._source_of(place)
            stands = 0 if failpoints.unsafe("watermark") else self._buffer.watermark(self._name, topic_id, place[1])
            known = self._sources[place] = Source(identify, topic_id, stands)
        return known

    def _entries(self, messages: Sequence[Message], topic_id: str) -> Iterator[Entry]:
        now = self._time()
        for message in messages:
            record, (group, identity) = message.record, message.value
            where = f"{record.topic()}/{record.partition()}/{record.offset()}"
            key = f"{topic_id}/{record.partition()}/{record.offset()}" if identity is None else f"id/{identity.hex()}"
            yield Entry(key, where, "", packed(record, topic_id, now), (), group)

    def committed(self, items: Sequence[Item], identify: Callable[[int], str], place: Place) -> None:
        """The watermark stands already."""

    def forget(self, place: Place) -> None:
        """Another worker has the partition now."""
        self._sources.pop(place, None)


def _from(messages: Sequence[Message], offset: int) -> Sequence[Message]:
    """Those that are not below it; they are in order."""
    return messages if messages[0].offset >= offset else [message for message in messages if message.offset >= offset]


def _parts(messages: Sequence[Message], most: int) -> Iterator[Sequence[Message]]:
    """At most so many records and, unless it is one, so many bytes at a time."""
    for at in range(0, len(messages), most):
        yield from _halves(messages[at : at + most])


def _halves(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    middle = len(messages) // 2
    if middle and sum(len(message.record.value() or b"") for message in messages) > INSERT_BYTES:
        yield from _halves(messages[:middle])
        yield from _halves(messages[middle:])
    else:
        yield messages
