"""OpenTelemetry spans, when OpenTelemetry's own environment variables ask for them; else nothing of it is imported.

Sampling, batches, headers and resource are configured by the same variables (OTEL_TRACES_SAMPLER, OTEL_BSP_*,
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
FLUSH_SECONDS = 3.0  # at the end of a process; the supervisor gives it 5 s more than its drain

Attributes = Mapping[str, str | int]


def asked(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The exporters that the variables ask for; none of them: no spans. Raises ConfigurationError for what cannot be
    had."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    default = "otlp" if any(environment.get(each) for each in ENDPOINTS) else "none"
    wanted = [each.strip() for each in (environment.get("OTEL_TRACES_EXPORTER", "").strip() or default).split(",")]
    names = tuple(dict.fromkeys(each for each in wanted if each not in ("", "none")))
    for name in names:
        _refuse_unknown(name)
    protocol = next((environment[each] for each in PROTOCOLS if environment.get(each)), "http/protobuf")
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
    """None: nobody asked. `service` is the name unless a variable gives one; `time` as for Spans. Raises
    ConfigurationError."""
    names = asked(environment)
    if not names:
        return None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes.get("service.name", UNNAMED)).startswith(UNNAMED):
        resource = resource.merge(Resource({"service.name": service}))
    # Its own shutdown at exit may wait half a minute for a collector that is away: `flush` has a limit.
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
    """Makes spans of what has happened. `time` gives nanoseconds since 1970. Any thread may use it."""

    def __init__(self, provider: "TracerProvider", time: Callable[[], int]) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace, self._propagator = trace, TraceContextTextMapPropagator()
        self._provider, self.time = provider, time
        self._tracer = provider.get_tracer("sluicegate")

    def fired(self, attributes: Attributes, seconds: float, trace: str | None) -> None:
        """A group ended `seconds` ago and is committed now; `trace` is the `traceparent` of its first record."""
        now = self.time()
        span = self._trace.get_current_span(self._context(trace)).get_span_context()
        links = [self._trace.Link(span)] if span.is_valid else []
        made = self._tracer.start_span(
            "sluicegate.fire",
            self._context(None),
            links=links,
            attributes=attributes,
            start_time=now - max(0, int(seconds * 1e9)),
        )
        made.end(now)

    def dispatched(self, attributes: Attributes, began: int, trace: str | None, error: str | None) -> None:
        """A row handed over at `began` has its delivery report; `trace` is its own `traceparent`, `error` why it did
        not arrive."""
        kind = self._trace.SpanKind.PRODUCER
        made = self._tracer.start_span(
            "sluicegate.dispatch", self._context(trace), kind=kind, attributes=attributes, start_time=began
        )
        if error is not None:
            made.set_status(self._trace.StatusCode.ERROR, error)
        made.end(self.time())

    def _context(self, trace: str | None) -> "Context":
        """Of the record alone: never of a span that is current in this thread."""
        return self._propagator.extract({} if trace is None else {"traceparent": trace})

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Send what was made, waiting so long at most: the provider's own flush waits for the collector as long as that
        takes."""
        sender = threading.Thread(target=self._provider.force_flush, name="spans-flush", daemon=True)
        sender.start()
        sender.join(seconds)
