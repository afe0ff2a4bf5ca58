"""The metric of the shared buffer's size, on each store."""

from typing import Any

from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.calling.pool import Threads
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.shared import shared_size
from sluicegate.streams.shared.shared_size import METRIC, SharedSize
from tests.contracts.buffer.given import entries, of
from tests.waiting import wait_until


def test_the_gauge_follows_what_is_in_the_buffer(store: Any, ns: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(shared_size, "EVERY", 0.1)
    now, meter = 0.0, Meter()
    size = SharedSize(ns, store.buffer, BackgroundCalls(Threads(1), lambda: None), meter, lambda: now)

    def shows(count: int) -> None:
        def seen() -> bool:
            nonlocal now
            now += 0.05
            size.turn(now, True)
            return [value for name, _, value in meter.snapshot() if name == METRIC] == [count]

        wait_until(seen, 20, f"{count} records")

    shows(0)
    store.buffer.insert(ns, entries(*range(12), correlation_id="c"))
    shows(12)
    [batch, *_] = store.buffer.insert_and_seal(ns, entries(12, correlation_id="c"), of(13)).batches
    shows(13)
    store.buffer.complete(ns, batch)
    shows(0)
