"""Spans that stay in memory."""

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sluicegate.streams.observe.tracing import Spans

TRACE, PARENT = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
TRACEPARENT = f"00-{TRACE:032x}-{PARENT:016x}-01"
"""As a producer that is traced sends it along."""


class Recorder:
    """`spans` for what is tested, at `now` nanoseconds; `done` those that ended, in this order."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000_000
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = Spans(provider, lambda: self.now)

    @property
    def done(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


def told(span: ReadableSpan) -> dict[str, object]:
    """Its attributes without our prefix."""
    return {name.removeprefix("sluicegate."): value for name, value in (span.attributes or {}).items()}


def messaging(operation: str, topic: str, partition: int) -> dict[str, object]:
    """What OpenTelemetry's conventions for messaging ask for."""
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(partition),
    }
