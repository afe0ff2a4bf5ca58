"""Records spans if the environment variables of OpenTelemetry request them. Otherwise OpenTelemetry is not imported.

The same variables configure sampling, batches, headers and the resource (OTEL_TRACES_SAMPLER, OTEL_BSP_*,
OTEL_SERVICE_NAME, ...).
"""

import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTERS = {"console": "opentelemetry.sdk", "otlp": "opentelemetry.exporter.otlp.proto.http"}
HINT = 'OpenTelemetry is not installed: pip install "sluicegate[otel]", or set OTEL_SDK_DISABLED=true'
UNNAMED = "unknown_service"
FLUSH_SECONDS = 3.0  # at the end of a process, which the supervisor gives 5 s more than the time to drain

Attributes = Mapping[str, str | int]


def asked(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The exporters that the variables request. Raises ConfigurationError for an exporter that is unknown or not
    installed."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    default = "otlp" if any(environment.get(endpoint) for endpoint in ENDPOINTS) else "none"
    wanted = [each.strip() for each in (environment.get("OTEL_TRACES_EXPORTER", "").strip() or default).split(",")]
    names = tuple(dict.fromkeys(each for each in wanted if each not in ("", "none")))
    for name in names:
        _refuse_unknown(name)
    protocol = next((environment[protocol] for protocol in PROTOCOLS if environment.get(protocol)), "http/protobuf")
    if "otlp" in names and protocol != "http/protobuf":
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}: spans are sent by http/protobuf only (port 4318, mostly)"
        )
    return names


def _refuse_unknown(name: str) -> None:
    if name not in EXPORTERS:
        raise ConfigurationError(
            f"OTEL_TRACES_EXPORTER: there is no exporter {name!r}; known are console, none and otlp"
        )
    try:
        missing = find_spec(EXPORTERS[name]) is None
    except ImportError:
        missing = True
    if missing:
        raise ConfigurationError(f"the variables OTEL_* ask for spans, and {HINT}")


def opened(environment: Mapping[str, str], service: str, time: Callable[[], int]) -> "Spans | None":
    """The spans, or None if the variables request none. `service` is the service name unless a variable sets it. `time`
    is as in Spans. Raises ConfigurationError."""
    names = asked(environment)
    if not names:
        return None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes.get("service.name", UNNAMED)).startswith(UNNAMED):
        resource = resource.merge(Resource({"service.name": service}))
    # The provider's shutdown may wait half a minute for a collector that is down, so `flush` with its limit is used.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    return Spans(provider, time)


def _exporter(name: str) -> "SpanExporter":
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


class Spans:
    """Records spans. `time` returns nanoseconds since 1970. Any thread may use it."""

    def __init__(self, provider: "TracerProvider", time: Callable[[], int]) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._provider, self.time = provider, time
        self._tracer = provider.get_tracer("sluicegate")

    def fired(self, attributes: Attributes, seconds: float, trace: str | None) -> None:
        """Records a group that was completed `seconds` ago and is committed now. `trace` is the `traceparent` of its
        first record."""
        now = self.time()
        span = self._trace.get_current_span(self._context(trace)).get_span_context()
        links = [self._trace.Link(span)] if span.is_valid else []
        start = now - max(0, int(seconds * 1e9))
        context = self._context(None)
        made = self._tracer.start_span("sluicegate.fire", context, links=links, attributes=attributes, start_time=start)
        made.end(now)

    def dispatched(self, attributes: Attributes, began: int, trace: str | None, error: str | None) -> None:
        """Records a row that was given to the producer at `began` and has its delivery report. `trace` is its
        `traceparent`. `error` is the reason why it was not delivered."""
        kind = self._trace.SpanKind.PRODUCER
        made = self._tracer.start_span(
            "sluicegate.dispatch", self._context(trace), kind=kind, attributes=attributes, start_time=began
        )
        if error is not None:
            made.set_status(self._trace.StatusCode.ERROR, error)
        made.end(self.time())

    def _context(self, trace: str | None) -> "Context":
        """The context of the record, and not the span that is current in this thread."""
        return self._propagator.extract({} if trace is None else {"traceparent": trace})

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Sends the spans, and waits at most `seconds`. The provider's own flush waits for the collector without a
        limit."""
        sender = threading.Thread(target=self._provider.force_flush, name="spans-flush", daemon=True)
        sender.start()
        sender.join(seconds)
