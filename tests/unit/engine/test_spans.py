"""What OpenTelemetry is told of the groups that fired."""

import threading
from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import codec
from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.links import MOST_TRACES, GroupLinks
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.opening import code_of
from tests.mutation.twins import without
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


WIDEST = Reducer("widest", "reduce", None, "tests.unit.aggregation.formats:widest")
RULES: dict[str, dict[str, Any]] = {
    "the loop": {},
    "the loop with where and until": {"until": "group.count == 3", "count": 9},
    "a loop of windows": {"window": Window(3600.0, max_ahead=1e12), "since_first": inf, "count": inf},
    "a loop with a user reducer": {"compute": (WIDEST,)},
    "with care": {"compute": (WIDEST,), "until": "group.count == 3", "count": 9},
}


def traced(log: Log, key: bytes, number: int) -> None:
    log.append("in", 0, key, MESSAGE, [("traceparent", f"00-{TRACE:032x}-{number:016x}-01".encode())])


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


@pytest.mark.parametrize("name", RULES)
def test_a_span_is_linked_to_all_records_of_its_group(
    log: Log, store: MemoryStore, clock: ManualClock, name: str
) -> None:
    for number, key in enumerate((b"a", b"b", b"a", b"b", b"a"), 1):
        traced(log, key, number)
    recorder = Recorder()
    driver = Driver(an_agent(**RULES[name]), store, log, clock, spans=recorder.spans).give(0).turns()
    driver.later(31).turns()
    driver.later(31).turns()
    spans = {told(span)["first"]: linked(span) for span in recorder.done}
    assert spans == {0: [1, 3, 5], 1: [2, 4]}


@pytest.mark.parametrize(
    ("kind", "wanted"), [("hopping", [[1, 2], [1, 2], [3]]), ("sliding", [[], [1], [2], [3]]), ("session", [[1, 2, 3]])]
)
def test_links_of_windows_that_overlap(
    log: Log, store: MemoryStore, clock: ManualClock, kind: Any, wanted: list[list[int]]
) -> None:
    every = {"hopping": 5.0}.get(kind)
    window = Window(10.0, kind=kind, every=every, time="amount", unit="s", max_ahead=1e12)
    recorder = Recorder()
    for number, time in ((1, 1), (2, 2), (3, 6)):
        header = f"00-{TRACE:032x}-{number:016x}-01".encode()
        log.append("in", 0, b"a", b'{"amount":%d}' % time, [("traceparent", header)])
    log.append("in", 0, b"z", b'{"amount":100}')
    agent = an_agent(window=window, since_first=inf, count=inf)
    Driver(agent, store, log, clock, spans=recorder.spans).give(0).turns(12)
    assert sorted(linked(span) for span in recorder.done) == wanted


def test_twin_without_its_note_the_loop_links_the_first_record_alone(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    for number in (1, 2, 3):
        traced(log, b"a", number)
    recorder = Recorder()
    with without("links-of-the-loop"):
        Driver(an_agent(), store, log, clock, spans=recorder.spans).give(0).turns()
    assert linked(recorder.done[0]) == [1]


def test_after_a_claim_the_first_record_is_linked_and_those_that_this_process_took(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    recorder = Recorder()
    traced(log, b"a", 1)
    traced(log, b"a", 2)
    Driver(an_agent(), store, log, clock, spans=recorder.spans).give(0).turns()
    traced(log, b"a", 3)
    Driver(an_agent(), store, log, clock, spans=recorder.spans).give(0).turns()
    assert [linked(span) for span in recorder.done] == [[1, 3]]


def test_a_span_has_as_many_links_as_opentelemetry_keeps_and_one_for_each_span(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    recorder = Recorder()
    for number in range(1, 100):
        traced(log, b"a", number)
        traced(log, b"a", number)
    for number in range(1, 150):
        traced(log, b"b", number)
    Driver(an_agent(count=149), store, log, clock, spans=recorder.spans).give(0).turns(2).later(31).turns()
    late, full = sorted((linked(span) for span in recorder.done), key=len)[-2:]
    assert (late, full) == ([*range(1, 76)], [*range(1, 129)])


def test_the_links_of_open_groups_are_bounded() -> None:
    links, header = GroupLinks(), [("traceparent", TRACEPARENT.encode())]
    for first in range(MOST_TRACES + 10):
        links.note(first, LogRecord("in", 0, first, b"k", MESSAGE, header))
    ended = [links.traces_of(Fire(b"k", 1, "count", first, first, 0.0, 0.0, None, {})) for first in (9, 10, 10)]
    assert ended == [[], [TRACEPARENT], []]


def test_without_spans_the_loop_has_no_code_for_links() -> None:
    rule = Rule(an_agent(), codec("json"))
    assert "note(" not in code_of(rule)
    assert Groups(rule).counts.links is None
    rule = Rule(an_agent(), codec("json"))
    rule.reader.traced = True
    assert code_of(rule).count("note(") == 1


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
    rest = [PersistenceError("gone")]

    def fails(claim: Any, changes: Any) -> None:
        if changes.outbox and rest:
            raise rest.pop()

    feed(log, ("a", 1))
    recorder = Recorder()
    hooked(store, before=fails)
    driver = Driver(an_agent(count=1), store, log, clock, spans=recorder.spans).give(0).turns()
    assert (rest, recorder.done) == ([], [])
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
    spans.fired(("in", 0), {}, 0.0, [])
    spans.flush(0.05)
    assert collector.asked.is_set()
    assert collector.names == []
    collector.open.set()
    wait_until(lambda: collector.names, 10, "the late answer")
