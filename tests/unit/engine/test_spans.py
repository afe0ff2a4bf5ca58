"""What OpenTelemetry is told of the groups that fired."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.tracing import Spans
from tests.spans import PARENT, TRACE, TRACEPARENT, Recorder, messaging, told
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import an_agent, distinct, feed, hooked
from tests.waiting import wait_until

MESSAGE = b'{"amount":1}'


class Collector(SpanExporter):
    """Takes what it is sent while `open` is set."""

    def __init__(self) -> None:
        self.open, self.asked = threading.Event(), threading.Event()
        self.names: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.asked.set()
        assert self.open.wait(20)
        self.names += [span.name for span in spans]
        return SpanExportResult.SUCCESS


def batched(collector: Collector) -> Spans:
    """They wait for an hour before they are sent, unless they are flushed."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(collector, schedule_delay_millis=3_600_000))
    return Spans(provider, lambda: 1)


def test_each_group_that_fires_has_a_span_linked_to_its_first_record(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"a", MESSAGE, [("traceparent", TRACEPARENT.encode())])
    log.append("in", 0, b"b", MESSAGE, [("traceparent", b"00-not-one\xff")])
    log.append("in", 0, b"a", MESSAGE)
    recorder = Recorder()
    driver = Driver(an_agent(count=2), store, log, clock, spans=recorder.spans).give(0).turns()
    driver.later(31).turns()
    full, late = recorder.done
    ids = {message.k: header(message, "sluicegate-fire") for message in distinct(log, "out")}
    where = {"agent": "sums", "messaging.consumer.group.name": "app.sums", **messaging("process", "in", 0)}
    size = "messaging.batch.message_count"
    assert told(full) == {"id": ids[b"a"], "reason": "count", size: 2, "first": 0, "last": 2, **where}
    assert told(late) == {"id": ids[b"b"], "reason": "timeout", size: 1, "first": 1, "last": 1, **where}
    assert [(link.context.trace_id, link.context.span_id) for link in full.links] == [(TRACE, PARENT)]
    assert not late.links
    assert [(span.name, span.kind, span.parent, span.end_time) for span in (full, late)] == [
        ("process in", SpanKind.CONSUMER, None, recorder.now)
    ] * 2


def test_a_span_is_as_long_as_the_commit_took(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("a", 1))
    recorder = Recorder()
    hooked(store, before=lambda claim, changes: setattr(clock, "now", clock.now + 0.25 * bool(changes.outbox)))
    Driver(an_agent(count=1), store, log, clock, spans=recorder.spans).give(0).turns()
    [span] = recorder.done
    assert span.start_time is not None
    assert recorder.now - span.start_time == pytest.approx(250_000_000, abs=1_000_000)


def test_a_group_whose_commit_failed_has_no_span_until_it_lands(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    left = [PersistenceError("gone")]

    def fails(claim: Any, changes: Any) -> None:
        if changes.outbox and left:
            raise left.pop()

    feed(log, ("a", 1))
    recorder = Recorder()
    hooked(store, before=fails)
    driver = Driver(an_agent(count=1), store, log, clock, spans=recorder.spans).give(0).turns()
    assert (left, recorder.done) == ([], [])
    wait_until(lambda: driver.later(5).turns() and recorder.done, 10, "the span of a commit that landed")
    assert len(recorder.done) == 1


@pytest.mark.parametrize("flushes", [True, False])
def test_what_was_made_is_sent_at_the_end_and_would_be_lost_without(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, flushes: bool
) -> None:
    if not flushes:
        monkeypatch.setattr(Spans, "flush", lambda self: None)
    collector = Collector()
    collector.open.set()
    feed(log, ("a", 1))
    driver = Driver(an_agent(count=1), store, log, clock, spans=batched(collector)).give(0).turns()
    assert collector.names == []
    assert driver.worker.run(lambda: True, 5.0) == 0
    assert collector.names == ["process in"] * flushes


def test_a_collector_that_does_not_answer_holds_nobody_up() -> None:
    collector = Collector()
    spans = batched(collector)
    spans.fired(("in", 0), {}, 0.0, None)
    spans.flush(0.05)
    assert collector.asked.is_set()
    assert collector.names == []
    collector.open.set()
    wait_until(lambda: collector.names, 10, "the late answer")
