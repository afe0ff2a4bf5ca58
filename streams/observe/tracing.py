"""Records spans if the environment variables of OpenTelemetry request them. Otherwise OpenTelemetry is not imported.

Names, kinds and attributes `messaging.*` follow OpenTelemetry's semantic conventions for messaging and Kafka. The same
variables configure sampling, batches, headers and the resource (OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SERVICE_NAME,
...).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sluicegate.streams.observe import otel

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

FLUSH_SECONDS = 3.0  # at the end of a process, which the supervisor gives 5 s more than the time to drain

Attributes = Mapping[str, str | int]


def requested_exporters(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The exporters that the variables request. Raises ConfigurationError for an exporter that is unknown or not
    installed."""
    return otel.requested_exporters(environment, otel.SPANS)


def opened(environment: Mapping[str, str], service: str, time: Callable[[], int]) -> "Spans | None":
    """The spans, or None if the variables request none. `service` is the service name unless a variable sets it. `time`
    is as in Spans. Raises ConfigurationError."""
    if not requested_exporters(environment):
        return None
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # The provider's shutdown may wait half a minute for a collector that is down, so `flush` with its limit is used.
    provider = TracerProvider(resource=otel.resource(service), shutdown_on_exit=False)
    for exporter in otel.exporters(environment, otel.SPANS):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return Spans(provider, time)


def _messaging(operation: str, topic: str, partition: int) -> Attributes:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": str(partition),
    }


class Spans:
    """Records spans. `time` returns nanoseconds since 1970. Thread-safe."""

    def __init__(self, provider: "TracerProvider", time: Callable[[], int]) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._provider, self.time = provider, time
        self._tracer = provider.get_tracer("sluicegate")

    def fired(self, place: tuple[str, int], attributes: Attributes, seconds: float, traces: Sequence[str]) -> None:
        """Records a group that was completed `seconds` ago and is committed now: the records of a topic's partition
        (`place`) were processed. `traces` are the values of `traceparent` of its records: a span that is sampled is
        linked to each one that is valid."""
        now = self.time()
        start = now - max(0, int(seconds * 1e9))
        span = self._tracer.start_span(
            f"process {place[0]}",
            self._context(None),
            kind=self._trace.SpanKind.CONSUMER,
            attributes={**_messaging("process", *place), **attributes},
            start_time=start,
        )
        for trace in traces if span.is_recording() else ():
            span.add_link(self._trace.get_current_span(self._context(trace)).get_span_context())
        span.end(now)

    def dispatched(
        self, place: tuple[str, int], attributes: Attributes, began: int, trace: str | None, error: str | None
    ) -> None:
        """Records a row that was given to the producer at `began` and has its delivery report. It went to a topic's
        partition (`place`). `trace` is its `traceparent`. `error` is the reason why it was not delivered."""
        made = self._tracer.start_span(
            f"send {place[0]}",
            self._context(trace),
            kind=self._trace.SpanKind.PRODUCER,
            attributes={**_messaging("send", *place), **attributes},
            start_time=began,
        )
        if error is not None:
            made.set_status(self._trace.StatusCode.ERROR, error)
        made.end(self.time())

    def _context(self, trace: str | None) -> "Context":
        """The context of the record, not of the current span in this thread."""
        return self._propagator.extract({} if trace is None else {"traceparent": trace})

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Sends the spans, and waits at most `seconds`. The provider's own flush waits for the collector without a
        limit."""
        sender = threading.Thread(target=self._provider.force_flush, name="spans-flush", daemon=True)
        sender.start()
        sender.join(seconds)
