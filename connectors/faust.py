"""An agent of a Faust app fills a shared buffer, and acknowledges a record only when the store has it.

Faust runs the agent and reads Kafka. The store holds the buffer and the position of its source. So a worker that dies
loses nothing, and a record that is read again is recognized by its offset.

The sink reads the channel of the stream, because the stream acknowledges too much. `take()` acknowledges records that
its consumer failed on (in its `finally`). An exception in `async for` acknowledges the current event. Records that were
queued before a rebalance are acknowledged unseen. The sink acknowledges in the order of the offsets, because Faust
commits past an offset that is missing.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from sluicegate.streams import failpoints
from sluicegate.streams.contracts.leased import NOT_KEPT, AggregatorBuffer
from sluicegate.streams.contracts.leased_values import (
    Entry,
    Filled,
    Gate,
    InsertResult,
    PositionMove,
    SealedBatch,
    entry_key,
)
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import ConfigurationError, WatermarkMoved

log = logging.getLogger("sluicegate.connectors.faust")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds after a call that failed
MOST = 1000


def entry_of(event: Any, id_header: str = "", type: str = "") -> Entry:
    """The entry of a record: its bytes, and its key as the group. `type` names the decoder of the data (default: the
    topic's name). The idempotency key is the value of header `id_header`, for producers that may write twice. Without
    such a header it is topic/partition/offset."""
    message = event.message
    place = entry_key(message.topic, message.partition, message.offset)
    pairs = message.headers.items() if hasattr(message.headers, "items") else message.headers or ()
    headers = [(str(name), value) for name, value in pairs]
    ids = [value for name, value in headers if name == id_header and value]
    key = (message.key or b"").decode(errors="backslashreplace")
    identity = ids[-1].decode(errors="backslashreplace") if ids else place
    return Entry(identity, key if key.strip() else place, type or message.topic, message.value or b"", headers, key)


class FaustPosition(NamedTuple):
    """`next` is the position of a partition, valid for one assignment (`generation`) of one topic (`topic_id`)."""

    topic_id: str
    generation: int
    next: int


class BufferSink:
    """The buffer `name` of `store`, for one agent of one Faust app.

    `topic_id(topic)` returns the id of a topic, which changes when the topic is recreated
    (`sluicegate.connectors.topic_ids`). With `gate`, the insert that fills a group seals it. `keep_keys` is how long an
    idempotency key is known after its row was completed: only keys that producers give need it, since the position
    tells which offsets were inserted. `entry` makes an Entry of an event; a transaction has at most `most` entries.
    """

    def __init__(
        self,
        store: Any,
        name: str,
        topic_id: Callable[[str], str],
        *,
        gate: Gate | None = None,
        keep_keys: timedelta = NOT_KEPT,
        entry: Callable[[Any], Entry] = entry_of,
        most: int = MOST,
    ) -> None:
        self._buffer: AggregatorBuffer = store.buffer
        self._name, self._topic_id, self._gate, self._keep_keys = name, topic_id, gate, keep_keys
        self._entry, self._most = entry, most
        self._waiting: list[Any] = []  # read and not durable yet: a restarted agent goes on with them
        self._sources: dict[TopicPartition, FaustPosition] = {}

    async def fill(self, stream: Any) -> AsyncIterator[Filled]:
        """Insert records, acknowledge them, and yield the result of each insert, until Faust stops the agent. The
        batches that an insert completed are leased to us.

        While the store is away nothing is acknowledged, and the same records are inserted again. Raises
        ConfigurationError.
        """
        _check(stream)
        while await self._read(stream.channel.queue):
            for place in dict.fromkeys(map(_place, self._waiting)):
                filled = await self._stored(stream.app, place)
                if filled is not None:
                    yield filled

    async def due(self, limit: int = 100) -> Sequence[SealedBatch]:
        """Batches without a worker: groups whose deadline has passed, and batches of workers that died. For an
        `app.timer`."""
        if self._gate is None:
            raise ConfigurationError(
                f"buffer {self._name}: a sink without a gate seals nothing; give it gate=Gate(...)"
            )
        return await asyncio.to_thread(self._buffer.due, self._name, self._gate, limit)

    async def complete(self, batch: SealedBatch, outbox: Sequence[OutboxMessage] = ()) -> int:
        """Delete the rows of the batch and write the messages, in one transaction. Raises ConcurrencyError."""
        return await asyncio.to_thread(self._buffer.complete, self._name, batch, outbox)

    async def _read(self, queue: Any) -> bool:
        """Take the queued records, at least one. False: Faust stops the agent; the next one reads the waiting records
        again."""
        try:
            if not self._waiting:
                self._waiting.append(await queue.get())
            while len(self._waiting) < self._most and not queue.empty():
                self._waiting.append(queue.get_nowait())
        except StopAsyncIteration:
            return False
        return True

    async def _stored(self, app: Any, place: TopicPartition) -> Filled | None:
        """Insert the waiting records of one partition, then acknowledge them. None: the partition was assigned again
        meanwhile, so its records come again."""
        pause = FIRST_PAUSE
        while True:
            current = app.consumer_generation_id
            events = [
                event for event in self._waiting if _place(event) == place and event.message.generation_id == current
            ]
            try:
                filled = await self._insert(place, current, events) if events else None
                break
            except ConfigurationError:
                raise
            except Exception as error:
                what = "buffer %s: %d records of %s/%d from offset %d on wait, unacknowledged (%s); again in %.1f s"
                log.warning(
                    what, self._name, len(events), *place, events[0].message.offset, type(error).__name__, pause
                )
                log.debug("why", exc_info=error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        failpoints.hit("faust-inserted")
        for event in events:
            event.ack()
        self._waiting = [event for event in self._waiting if _place(event) != place]
        return filled

    async def _insert(self, place: TopicPartition, generation: int, events: Sequence[Any]) -> Filled:
        """Insert the records at and after the position. Raises the errors of the store, the brokers and `entry`."""
        while True:
            source = await self._source(place, generation, events[0].message.offset)
            new = [event for event in events if event.message.offset >= source.next]
            known = len(events) - len(new)
            if not new:
                return Filled(InsertResult(0, known), ())
            progress = PositionMove(source.topic_id, place[1], source.next, new[-1].message.offset + 1)
            try:
                filled = await asyncio.to_thread(self._written, new, progress)
            except WatermarkMoved as moved:
                self._sources[place] = source._replace(next=moved.next)
                continue
            self._sources[place] = source._replace(next=progress.next)
            return filled._replace(result=filled.result._replace(duplicates=filled.result.duplicates + known))

    def _written(self, events: Sequence[Any], progress: PositionMove) -> Filled:
        entries = [self._entry(event) for event in events]
        failpoints.hit("faust-received")
        if self._gate is not None:
            return self._buffer.insert_and_seal(self._name, entries, self._gate, progress, self._keep_keys)
        return Filled(self._buffer.insert(self._name, entries, progress, self._keep_keys), ())

    async def _source(self, place: TopicPartition, generation: int, first: int) -> FaustPosition:
        """The position of the partition. It is read again after each assignment, and when offsets went back, because
        the topic may have been recreated."""
        source = self._sources.get(place)
        if source is not None and source.generation == generation and first >= source.next:
            return source
        id = await asyncio.to_thread(self._topic_id, place[0])
        if source is None or (source.generation, source.topic_id) != (generation, id):
            position = await asyncio.to_thread(self._buffer.position, self._name, id, place[1])
            source = self._sources[place] = FaustPosition(id, generation, position)
            if 0 < source.next < first:
                what = (
                    "buffer %s: offsets %d to %d of %s/%d did not come: retention, transactions' markers, or "
                    "committed by others"
                )
                log.warning(what, self._name, source.next, first - 1, *place)
        return source


def _place(event: Any) -> TopicPartition:
    return event.message.topic, event.message.partition


def _check(stream: Any) -> None:
    """Raises ConfigurationError where Faust would acknowledge by itself, or not in the order of the offsets."""
    if stream.concurrency_index is not None:
        raise ConfigurationError(
            "a BufferSink needs an agent with concurrency=1: acknowledged out of order, Faust loses records"
        )
    if stream.info()["processors"] or stream.combined:
        raise ConfigurationError(
            "a BufferSink reads the topic itself: no filters, group_by, joins or yield in its agent"
        )
    if stream.channel.value_type is not bytes or stream.channel.key_type not in (None, bytes):
        raise ConfigurationError(
            "a BufferSink needs app.topic(NAME, key_type=bytes, value_type=bytes): Faust acknowledges records that it "
            "cannot decode; the types of open_store decode them later"
        )
