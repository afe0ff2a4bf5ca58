"""Reads OpenTelemetry's environment variables: the exporters of a signal, the protocol, and the resource. No module of
OpenTelemetry is imported before a variable requests it."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

HTTP, GRPC = "http/protobuf", "grpc"
OTLP = {HTTP: "opentelemetry.exporter.otlp.proto.http", GRPC: "opentelemetry.exporter.otlp.proto.grpc"}
EXTRAS = {HTTP: "otel", GRPC: "otel,otel-grpc"}
SDK = "opentelemetry.sdk"
UNNAMED = "unknown_service"


class Signal(NamedTuple):
    """`variable` is its part in the names of variables. `otlp` and `console` are the module and the class of its
    exporters, without the package of the protocol or of the SDK. `served` are names that request no exporter here."""

    name: str
    variable: str
    otlp: tuple[str, str]
    console: tuple[str, str]
    served: tuple[str, ...] = ()


SPANS = Signal("spans", "TRACES", ("trace_exporter", "OTLPSpanExporter"), ("trace.export", "ConsoleSpanExporter"))
METRICS = Signal(
    "metrics",
    "METRICS",
    ("metric_exporter", "OTLPMetricExporter"),
    ("metrics.export", "ConsoleMetricExporter"),
    ("prometheus",),  # the HTTP port serves them
)


def requested_exporters(environment: Mapping[str, str], signal: Signal) -> tuple[str, ...]:
    """The exporters that the variables request for the signal. Raises ConfigurationError for an exporter that is
    unknown or not installed."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    endpoints = (f"OTEL_EXPORTER_OTLP_{signal.variable}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    default = "otlp" if any(environment.get(endpoint) for endpoint in endpoints) else "none"
    text = environment.get(f"OTEL_{signal.variable}_EXPORTER", "").strip() or default
    wanted = [name.strip() for name in text.split(",")]
    names = tuple(dict.fromkeys(name for name in wanted if name not in ("", "none", *signal.served)))
    for name in names:
        _refuse_unknown(name, environment, signal)
    return names


def exporters(environment: Mapping[str, str], signal: Signal) -> list[Any]:
    """The requested exporters. Raises ConfigurationError."""
    return [_exporter(name, environment, signal) for name in requested_exporters(environment, signal)]


def resource(service: str, **more: str) -> "Resource":
    """The resource. `service` is the name of the service, and `more` are further attributes `service.*`, unless a
    variable sets them."""
    from opentelemetry.sdk.resources import Resource

    defaults = Resource.create()
    own = {f"service.{name}": value for name, value in more.items() if f"service.{name}" not in defaults.attributes}
    if str(defaults.attributes.get("service.name", UNNAMED)).startswith(UNNAMED):
        own["service.name"] = service
    return defaults.merge(Resource(own))


def _exporter(name: str, environment: Mapping[str, str], signal: Signal) -> Any:
    place, (module, kind) = (
        (OTLP[_protocol(environment, signal)], signal.otlp) if name == "otlp" else (SDK, signal.console)
    )
    return getattr(import_module(f"{place}.{module}"), kind)()


def _protocol(environment: Mapping[str, str], signal: Signal) -> str:
    """The OTLP protocol. Raises ConfigurationError for an unsupported one."""
    names = (f"OTEL_EXPORTER_OTLP_{signal.variable}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next((environment[name] for name in names if environment.get(name)), HTTP)
    if protocol not in OTLP:
        raise ConfigurationError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}: write {HTTP} or {GRPC}")
    return protocol


def _refuse_unknown(name: str, environment: Mapping[str, str], signal: Signal) -> None:
    if name not in ("console", "otlp"):
        *known, last = ("console", "none", "otlp", *signal.served)
        text = f"there is no exporter {name!r}; known are {', '.join(known)} and {last}"
        raise ConfigurationError(f"OTEL_{signal.variable}_EXPORTER: {text}")
    protocol = _protocol(environment, signal) if name == "otlp" else HTTP
    try:
        missing = find_spec(OTLP[protocol] if name == "otlp" else SDK) is None
    except ImportError:
        missing = True
    if missing:
        hint = f'pip install "sluicegate[{EXTRAS[protocol]}]", or set OTEL_SDK_DISABLED=true'
        raise ConfigurationError(
            f"the variables OTEL_* ask for {signal.name}, and OpenTelemetry is not installed: {hint}"
        )
