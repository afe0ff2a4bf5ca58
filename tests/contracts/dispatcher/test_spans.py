"""What OpenTelemetry is told of the rows that the dispatcher hands to Kafka."""

from dataclasses import replace
from typing import Any

from opentelemetry.trace import SpanKind, StatusCode

from tests.contracts.dispatcher.given import OUTBOX, Turned, add, add_numbers, message
from tests.spans import PARENT, TRACE, TRACEPARENT, Recorder, messaging, told

ID = "messaging.message.id"


def test_195_a_span_for_each_dispatch_carries_its_id(store: Any) -> None:
    add(store, message(1, headers=[("traceparent", TRACEPARENT.encode())]), message(2, key=b"other"))
    recorder = Recorder()
    one = Turned(store, spans=recorder.spans)
    one.producer.hold = True
    handed = recorder.now
    one.until(lambda: len(one.producer.waiting) == 2, "both rows handed over")
    assert recorder.done == []
    recorder.now += 5_000_000
    one.producer.hold = False
    one.sent_all()
    spans = {str(told(span)[ID]): span for span in recorder.done}
    lanes = {row.message.id: row.lane for row in store.outbox.find("dispatched")}
    assert len(recorder.done) == 2
    assert set(spans) == {"m1", "m2"}
    for identity, span in spans.items():
        place = str(told(span)["messaging.destination.partition.id"])
        assert told(span) == {
            ID: identity,
            "lane": lanes[identity],
            "outcome": "delivered",
            **messaging("send", "t", int(place)),
        }
    for span in spans.values():
        assert (span.name, span.kind, span.status.status_code) == ("send t", SpanKind.PRODUCER, StatusCode.UNSET)
        assert (span.start_time, span.end_time) == (handed, recorder.now)
    child, root = spans["m1"], spans["m2"]
    assert child.parent is not None
    assert (child.parent.trace_id, child.parent.span_id, child.context.trace_id) == (TRACE, PARENT, TRACE)
    assert root.parent is None


def test_a_row_that_is_sent_again_has_a_span_each_time(store: Any) -> None:
    add_numbers(store, 1, headers=[("traceparent", b"00-not-one\xff")])
    recorder = Recorder()
    one = Turned(store, spans=recorder.spans)
    one.producer.fate = lambda row: "rejected" if one.producer.replaced else "failed"
    one.until(lambda: store.outbox.count("dead") == 1, "a dead row")
    assert [(told(span)[ID], told(span)["outcome"], span.status.status_code) for span in recorder.done] == [
        ("m1", "failed", StatusCode.ERROR),
        ("m1", "rejected", StatusCode.ERROR),
    ]
    assert [span.status.description for span in recorder.done] == ["failed: by the test", "rejected: by the test"]
    assert [span.parent for span in recorder.done] == [None, None]


def test_a_row_that_the_producer_has_no_room_for_has_no_span_yet_and_one_without_order_no_lane(store: Any) -> None:
    add_numbers(store, 1)
    recorder = Recorder()
    one = Turned(store, outbox=replace(OUTBOX, order="none"), spans=recorder.spans)
    one.producer.room = 0
    one.later()
    assert recorder.done == []
    one.producer.room = 1
    one.sent_all()
    assert [told(span)["lane"] for span in recorder.done] == [-1]
