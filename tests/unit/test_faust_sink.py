"""The Faust adapter without a broker: what is acknowledged, when, and in which order; what it refuses."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import faust
import pytest

from sluicegate.connectors import faust as adapter
from sluicegate.connectors.faust import BufferSink, entry_of
from sluicegate.connectors.kafka.producer import KafkaProducer
from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.leased_values import Filled, Gate
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SystemNotReady
from tests.mutation.twins import without


@dataclass
class Message:
    partition: int
    offset: int
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: Any = None
    generation_id: int = 1
    topic: str = "orders"


@dataclass
class Scene:
    """A stream as Faust gives it to an agent, and the offsets that were acknowledged."""

    store: MemoryStore = field(default_factory=MemoryStore)
    acked: list[tuple[int, int]] = field(default_factory=list)
    queue: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    topic: str = "id-1"

    def __post_init__(self) -> None:
        self.app = SimpleNamespace(consumer_generation_id=1)
        channel = SimpleNamespace(queue=self.queue, value_type=bytes, key_type=bytes)
        self.stream = SimpleNamespace(
            app=self.app, channel=channel, concurrency_index=None, combined=[], info=lambda: {"processors": []}
        )

    def sink(self, **how: Any) -> BufferSink:
        return BufferSink(self.store, "b", lambda topic: self.topic, **how)

    def come(self, *messages: Message) -> None:
        for message in messages:
            ack = partial(self.acked.append, (message.partition, message.offset))
            self.queue.put_nowait(SimpleNamespace(message=message, ack=ack))

    def filled(self, sink: BufferSink, times: int = 1) -> list[Filled]:
        """What the next inserts came to."""
        return asyncio.run(self._filled(sink, times))

    async def _filled(self, sink: BufferSink, times: int) -> list[Filled]:
        filleds: list[Filled] = []
        filling = sink.fill(self.stream)
        async with asyncio.timeout(30):
            while len(filleds) < times:
                filleds.append(await anext(filling))
        return filleds

    def keys(self) -> list[str]:
        return [entry.idempotency_key for entry in self.store.buffer.get_data("b")]


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "FIRST_PAUSE", 0.001)


def offsets(*numbers: int, **how: Any) -> list[Message]:
    return [Message(0, number, **how) for number in numbers]


def test_what_waits_is_one_insert_for_each_partition_and_acknowledged_in_order(scene: Scene) -> None:
    scene.come(Message(0, 0), Message(1, 0), Message(0, 1))
    results = [result.result for result in scene.filled(scene.sink(), 2)]
    assert results == [(2, 0), (1, 0)]
    assert scene.acked == [(0, 0), (0, 1), (1, 0)]
    assert (scene.store.buffer.position("b", "id-1", 0), scene.store.buffer.position("b", "id-1", 1)) == (2, 1)


def test_it_ends_with_its_agent(scene: Scene, app: Any) -> None:
    """Faust ends an agent by an error in its channel."""

    async def whole() -> list[Filled]:
        queue = scene.stream.channel.queue = app.FlowControlQueue(10)
        app.flow_control.resume()
        queue.put_nowait(SimpleNamespace(message=Message(0, 0), ack=list))
        filled = []
        async for result in scene.sink().fill(scene.stream):
            filled.append(result)
            await queue.throw(StopAsyncIteration())
        return filled

    assert [result.result.stored for result in asyncio.run(whole())] == [1]


def test_a_transaction_has_at_most_so_many_records(scene: Scene) -> None:
    scene.come(*offsets(*range(5)))
    assert [result.result.stored for result in scene.filled(scene.sink(most=2), 3)] == [2, 2, 1]


def test_full_groups_are_handed_out_and_completed(scene: Scene) -> None:
    sink = scene.sink(gate=Gate(count=2))
    scene.come(*offsets(0, 1), *offsets(2, key=b"other"))
    [[batch]] = [result.batches for result in scene.filled(sink)]
    assert (batch.group, [entry.data for entry in batch.entries]) == ("k", [b"v", b"v"])
    assert asyncio.run(sink.complete(batch)) == 2
    assert scene.keys() == ["orders/0/2"]
    assert list(asyncio.run(sink.due())) == []


def test_nothing_is_due_without_a_gate(scene: Scene) -> None:
    with pytest.raises(ConfigurationError, match="without a gate"):
        asyncio.run(scene.sink().due())


@pytest.mark.parametrize(
    "error", [PersistenceError("the reply was lost"), SystemNotReady("away"), ValueError("an entry that fails")]
)
def test_while_an_insert_fails_nothing_is_acknowledged_and_the_same_records_are_tried_again(
    scene: Scene, error: Exception
) -> None:
    failing = deque([error] * 3)
    acked_before: list[int] = []

    def entry(event: Any) -> Any:
        acked_before.append(len(scene.acked))
        if failing:
            raise failing.popleft()
        return entry_of(event)

    scene.come(*offsets(0, 1))
    assert scene.filled(scene.sink(entry=entry))[0].result == (2, 0)
    assert (set(acked_before), scene.acked) == ({0}, [(0, 0), (0, 1)])


def test_an_insert_whose_reply_was_lost_is_known_by_the_watermark(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = scene.store.buffer.insert
    lost = [1]

    def losing(*arguments: Any) -> Any:
        done = insert(*arguments)
        if lost:
            raise PersistenceError(f"the reply is lost: {lost.pop()}")
        return done

    monkeypatch.setattr(scene.store.buffer, "insert", losing)
    scene.come(*offsets(0, 1))
    assert scene.filled(scene.sink())[0].result == (0, 2)
    assert (scene.keys(), scene.acked) == (["orders/0/0", "orders/0/1"], [(0, 0), (0, 1)])


def test_an_agent_that_is_started_again_goes_on_with_what_waited(scene: Scene) -> None:
    """Faust gives an event once: what the dead agent had read and not stored would be acknowledged past."""
    sink = scene.sink()
    scene.come(Message(0, 0), Message(1, 0))
    assert scene.filled(sink)[0].result == (1, 0)
    assert scene.acked == [(0, 0)]
    scene.come(Message(1, 1))
    assert scene.filled(sink)[0].result == (2, 0)
    assert scene.acked == [(0, 0), (1, 0), (1, 1)]


def test_what_another_worker_took_in_meanwhile_is_acknowledged_and_left_out(scene: Scene) -> None:
    first, second = scene.sink(), scene.sink()
    scene.come(*offsets(0))
    scene.filled(first)
    scene.come(*offsets(1, 2))
    scene.filled(second)
    scene.come(*offsets(1, 2, 3))
    assert scene.filled(first)[0].result == (1, 2)
    assert scene.keys() == [f"orders/0/{number}" for number in range(4)]
    assert scene.acked[-3:] == [(0, 1), (0, 2), (0, 3)]


def test_records_of_an_assignment_that_is_over_are_left_to_whoever_has_them_now(scene: Scene) -> None:
    scene.app.consumer_generation_id = 2
    scene.come(*offsets(5, 6), Message(1, 0, generation_id=2))
    assert scene.filled(scene.sink())[0].result == (1, 0)
    assert scene.acked == [(1, 0)]
    assert scene.keys() == ["orders/1/0"]


@pytest.mark.parametrize("generation", [1, 2])
def test_a_topic_that_was_made_anew_begins_anew(scene: Scene, generation: int) -> None:
    sink = scene.sink(entry=partial(entry_of, id_header="id"))
    scene.come(*offsets(0, 1, headers=[("id", b"a")]))
    scene.filled(sink)
    scene.topic = "id-2"
    scene.app.consumer_generation_id = generation
    scene.come(*offsets(0, generation_id=generation, headers=[("id", b"b")]))
    assert scene.filled(sink)[0].result == (1, 0)
    assert scene.keys() == ["a", "b"]


def test_offsets_that_did_not_come_are_said(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.come(*offsets(0))
    scene.filled(scene.sink())
    scene.come(*offsets(4))
    scene.filled(scene.sink())
    [line] = caplog.messages
    assert "offsets 1 to 3 of orders/0 did not come" in line


def test_an_entry_is_the_record_as_it_came(scene: Scene) -> None:
    scene.come(Message(0, 0, b"\xff", None, {"h": b"1"}), Message(0, 1, None, b"{}", [("h", b"1"), ("h", None)]))
    scene.filled(scene.sink())
    first, second = scene.store.buffer.get_data("b")
    assert (first.group, first.correlation_id, first.data, list(first.headers)) == (
        "\\xff",
        "\\xff",
        b"",
        [("h", b"1")],
    )
    assert (second.group, second.correlation_id, second.type) == ("", "orders/0/1", "orders")
    assert list(second.headers) == [("h", b"1"), ("h", None)]


def test_a_producers_duplicate_is_known_by_its_header_and_without_one_by_its_place(scene: Scene) -> None:
    twice = [("id", b"m-1")]
    scene.come(*offsets(0, 1, headers=twice), *offsets(2, headers=[("id", b"")]))
    assert scene.filled(scene.sink(entry=partial(entry_of, id_header="id", type="order")))[0].result == (2, 1)
    assert scene.keys() == ["m-1", "orders/0/2"]
    assert {entry.type for entry in scene.store.buffer.get_data("b")} == {"order"}


@pytest.mark.parametrize("protection", ["", "faust-watermark"], ids=["", "twin"])
def test_a_completed_record_that_is_read_again_is_known_by_the_watermark_alone(scene: Scene, protection: str) -> None:
    with without(protection):
        scene.come(*offsets(0))
        scene.filled(scene.sink())
        scene.store.buffer.remove_snapshot("b", scene.store.buffer.get_snapshot("b"))
        scene.come(*offsets(0))
        assert scene.filled(scene.sink())[0].result == ((1, 0) if protection else (0, 1))


# -- with Faust's own objects
# --------------------------------------------------------------------------------------------


def refused(stream: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        asyncio.run(anext(Scene().sink().fill(stream)))
    return str(raised.value)


@pytest.fixture
def app(tmp_path: Any) -> Any:
    return faust.App("app", broker="kafka://127.0.0.1:1", datadir=str(tmp_path))


def test_what_faust_would_acknowledge_out_of_order_or_unseen_is_refused(app: Any) -> None:
    raw = app.topic("orders", key_type=bytes, value_type=bytes)
    assert "concurrency=1" in refused(app.stream(raw, concurrency_index=0))
    assert "no filters" in refused(app.stream(raw).filter(lambda value: value is not None))
    assert "value_type=bytes" in refused(app.stream(app.topic("orders")))
    assert "key_type=bytes" in refused(app.stream(app.topic("orders", key_type=str, value_type=bytes)))


def test_faust_chooses_the_partition_of_a_key_as_we_do(app: Any) -> None:
    """Both sides use Java's murmur2. With two partitioners one key would be in two partitions."""
    from aiokafka.partitioner import DefaultPartitioner

    assert app.conf.producer_partitioner is None
    theirs, everyone = DefaultPartitioner(), list(range(12))
    for number in range(500):
        key = b"key-%d" % number
        assert theirs(key, everyone, everyone) == KafkaProducer.partition_of(None, key, 12)  # type: ignore[arg-type]
