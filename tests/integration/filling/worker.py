"""A Faust worker that fills a buffer: `python -m tests.integration.filling.worker ORDERS`, ORDERS being JSON of these
fields."""

import itertools
import json
import sys
import threading
from pathlib import Path
from typing import Any

import faust

from sluicegate.connectors import open_store, topic_ids
from sluicegate.connectors.faust import BufferSink
from sluicegate.streams.contracts.leased_values import Gate, SealedBatch
from sluicegate.streams.contracts.messages import OutboxMessage


class Stalling:
    """A buffer whose insert number `at` (and all that follow) never returns; the file `sign` is there from then on."""

    def __init__(self, buffer: Any, at: int, sign: Path) -> None:
        self._buffer, self._at, self._sign, self._calls = buffer, at, sign, itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)

    def insert_and_seal(self, *arguments: Any) -> Any:
        if next(self._calls) >= self._at:
            self._sign.touch()
            threading.Event().wait()
        return self._buffer.insert_and_seal(*arguments)


class Stall:
    """The store with that buffer."""

    def __init__(self, store: Any, at: int, sign: Path) -> None:
        self.buffer = Stalling(store.buffer, at, sign)


def told(topic: str, batch: SealedBatch) -> list[OutboxMessage]:
    """One message that names all keys of the batch."""
    keys = json.dumps([entry.idempotency_key for entry in batch.entries]).encode()
    return [OutboxMessage(f"{topic}.done", key=batch.group.encode(), value=keys, id=batch.id)]


def app_of(orders: dict[str, Any]) -> Any:
    app = faust.App(
        orders["group"],
        broker=f"kafka://{orders['bootstrap']}",
        datadir=orders["folder"],
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        broker_commit_interval=orders.get("commit", 0.1),
        broker_session_timeout=6.0,
        broker_heartbeat_interval=1.0,
        consumer_group_instance_id=orders.get("instance"),
        stream_recovery_delay=0.0,
    )
    store = open_store(orders["store"])
    store.migrate()
    held_store = Stall(store, orders["stall"], Path(orders["folder"], "stalled")) if orders.get("stall") else store
    kafka = {"bootstrap.servers": orders["bootstrap"]}
    sink = BufferSink(held_store, orders["topic"], topic_ids(kafka), gate=Gate(count=10), most=orders.get("most", 1000))
    topic = app.topic(orders["topic"], key_type=bytes, value_type=bytes)

    @app.agent(topic)
    async def collect(stream: Any) -> None:
        async for filled in sink.fill(stream):
            for batch in filled.batches:
                await sink.complete(batch, told(orders["topic"], batch))

    return app


if __name__ == "__main__":
    worker = faust.Worker(app_of(json.loads(sys.argv[1])), loglevel="INFO")
    worker.execute_from_commandline()
