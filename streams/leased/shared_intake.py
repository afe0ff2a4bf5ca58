"""`scope: shared`, first half: an owner puts its records into the one buffer that all workers fill.

The insert moves the source's watermark in its own transaction, before the owner's commit moves the offset: what is read again after a
crash lies below the watermark and is left out, whoever reads it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
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
from streams.leased.shared_records import LONGEST_KEY, group_of, packed
from streams.leased.values import Entry, Gate, Progress
from streams.observe.metrics import Meter
from streams.record import Record

AT_ONCE = 1_000  # records of one insert: a store that runs one script at a time is held up no longer

Place = tuple[str, int]


class Source(NamedTuple):
    """Of a partition, as far as this process knows: topic id (streams.values.Source.name) and watermark, under the claim of which
    `identify` makes the ids."""

    identify: Callable[[int], str]
    topic_id: str
    watermark: int


class SharedIntake:
    """Takes the place of Handling. `source_of` asks the store for what ids of a partition are made of; `time` gives seconds since 1970: it
    only says when a record came, never what wins."""

    batches = session = False

    def __init__(
        self, name: str, rule: Rule, ids: IdRule | None, gate: Gate, buffer: AggregatorBuffer, fires: SharedFires,
        source_of: Callable[[Place], str], meter: Meter, time: Callable[[], float],
    ) -> None:  # fmt: skip
        self._name, self._rule, self._ids, self._gate, self._buffer, self.fires = name, rule, ids, gate, buffer, fires
        self._source_of, self._meter, self._time = source_of, meter, time
        self._keep = timedelta(seconds=ids.setting.horizon) if ids else NOT_KEPT
        self._sources: dict[Place, Source] = {}

    def step(self, place: Place, offset: int) -> int:
        """As Failures.step: nothing here may fail."""
        return 0

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records with `value` (name of their group, id for `dedupe` or None), or refused ones."""
        items: list[Item] = []
        for record in records:
            try:
                key, _, _ = parsed(groups, record)
            except Exception as error:
                refuse(groups, record, error)
            else:
                if (named := self._named(groups, record, key)) is not None:
                    items.append(Message(named, record))
                    continue
            items += [event for event in groups.drain() if isinstance(event, Refused)]
        return items

    def _named(self, groups: Groups, record: Record, key: bytes | None) -> tuple[str, bytes | None] | None:
        """None: the record was refused."""
        group = None if key is None else group_of(key)
        if group is None or len(group) > LONGEST_KEY:
            groups.refuse_key(record, key, LONGEST_KEY)
            return None
        identity = self._ids.identity(record) if self._ids else None
        if self._ids is not None and identity is None and self._ids.refuses(record):
            self._ids.refuse(groups, record)
            return None
        return group, identity

    def run(self, items: Sequence[Item], identify: Callable[[int], str], session: None, place: Place) -> list[Event]:
        """Into the buffer with them; what is left was refused, or fired when the scope was changed. Raises PersistenceError,
        SystemNotReady, and the Halt of a batch."""
        if self.fires.halt is not None:
            raise self.fires.halt
        messages = iter([item for item in items if isinstance(item, Message)])
        while chunk := list(islice(messages, AT_ONCE)):
            self._put(place, chunk, identify)
        return [item for item in items if not isinstance(item, Message)]

    def _put(self, place: Place, messages: Sequence[Message], identify: Callable[[int], str]) -> None:
        _, topic_id, stands = self._source(place, identify)
        while fresh := [message for message in messages if message.offset >= stands]:
            moves = Progress(topic_id, place[1], stands, fresh[-1].offset + 1)
            progress = None if failpoints.unsafe("watermark") else moves
            try:
                filled = self._buffer.insert_and_seal(self._name, list(self._entries(fresh, topic_id)), self._gate, progress, self._keep)
            except WatermarkMoved as moved:
                stands = moved.next
                continue
            stands = moves.next
            if failpoints.armed:
                failpoints.hit("shared-inserted")
            if filled.result.duplicates:
                self._meter.count("records_duplicate", filled.result.duplicates)
            self.fires.take(filled.batches)
        self._sources[place] = Source(identify, topic_id, stands)

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
