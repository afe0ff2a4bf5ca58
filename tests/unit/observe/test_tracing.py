"""Whether spans are asked for, what is loaded for them, and that they reach a collector."""

import re
import subprocess
import sys

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import add_TraceServiceServicer_to_server
from opentelemetry.sdk.trace import TracerProvider
from typer.testing import CliRunner

from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Outbox
from sluicegate.streams.cli import child, main
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe import tracing
from sluicegate.streams.processes.child import WorkerPlan
from tests import collectors
from tests.spans import Recorder
from tests.unit.cli.files import written

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
MISSING = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "PROTOCOL", "TRACES_ENDPOINT", "TRACES_PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name in ("TRACES_EXPORTER", "SDK_DISABLED", "SERVICE_NAME", "RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(f"OTEL_{name}", raising=False)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ()),
        (ENDPOINT, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "console, otlp,otlp"}, ("console", "otlp")),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, ()),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "True"}, ()),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, ("console",)),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ("otlp",)),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"},
            ("otlp",),
        ),
    ],
)
def test_opentelemetrys_own_variables_ask_for_spans(environment: dict[str, str], names: tuple[str, ...]) -> None:
    assert tracing.requested_exporters(environment) == names


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin"},
            "OTEL_TRACES_EXPORTER: there is no exporter 'zipkin'; known are console, none and otlp",
        ),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json': write http/protobuf or grpc",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(environment: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        tracing.requested_exporters(environment)
    assert str(caught.value).startswith(says)


def test_without_the_extra_a_run_ends_with_2_and_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in MISSING:
        monkeypatch.setitem(sys.modules, name, None)
    assert tracing.opened({}, "app", lambda: 0) is None
    for variable, value in (*ENDPOINT.items(), ("OTEL_TRACES_EXPORTER", "console")):
        monkeypatch.setenv(variable, value)
        result = CliRunner().invoke(main, ["run", written(tmp_path)])
        assert result.exit_code == 2
        [line] = result.stderr.splitlines()
        assert (
            'the variables OTEL_* ask for spans, and OpenTelemetry is not installed: pip install "sluicegate[otel]"'
            in line
        )


def test_without_the_extra_of_grpc_the_line_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc", None)
    with pytest.raises(ConfigurationError, match=re.escape('pip install "sluicegate[otel,otel-grpc]"')):
        tracing.requested_exporters({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


@pytest.mark.parametrize(("wanted", "loaded"), [("none", False), ("console", True)])
def test_a_workers_process_loads_it_only_when_it_is_asked_for(
    wanted: str, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", wanted)
    code = "import sys; from sluicegate.streams.cli import child; made = child.spans('app'); "
    code += "print(made is not None, 'opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == ([str(loaded)] * 2, "")


def test_a_span_that_is_current_in_this_thread_is_no_parent() -> None:
    recorder = Recorder()
    with TracerProvider(shutdown_on_exit=False).get_tracer("handler").start_as_current_span("of a handler"):
        recorder.spans.fired(("in", 0), {}, 0.0, [])
        recorder.spans.dispatched(("out", 0), {}, 1, None, None)
    assert [span.parent for span in recorder.done] == [None, None]


def test_worker_and_dispatcher_are_made_with_the_spans_of_their_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are asked for before anything is opened, so that a refusal leaves nothing behind."""

    def refused(app: str) -> None:
        raise ConfigurationError(f"spans of {app}")

    monkeypatch.setattr(child, "spans", refused)
    agent = Agent("a", ("in",), Aggregation(count=1), Destination("out"), "dead")
    app = App("shop", "memory://", (agent,), outbox=Outbox())
    with pytest.raises(ConfigurationError, match="spans of shop"):
        child.make_dispatcher(app, print)
    with pytest.raises(ConfigurationError, match="spans of shop"):
        child.make_worker(WorkerPlan(app, agent, 0, "refuse", 1.0), print)


@pytest.mark.parametrize("name", ["", "shop"])
def test_spans_reach_a_collector_under_the_apps_name_or_the_one_that_is_set(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with collectors.by_http() as (address, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        if name:
            monkeypatch.setenv("OTEL_SERVICE_NAME", name)
        spans = tracing.opened({"OTEL_EXPORTER_OTLP_ENDPOINT": address}, "app", lambda: 2_000_000_000)
        assert spans is not None
        spans.fired(("in", 0), {"sluicegate.first": 3}, 0.5, [])
        spans.dispatched(("out", 1), {"messaging.message.id": "m1"}, 1_500_000_000, None, "no room")
        spans.flush(20)
    [(path, body)] = received
    [resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    sent = [(span.name, span.start_time_unix_nano, span.end_time_unix_nano) for span in resource.scope_spans[0].spans]
    assert path == "/v1/traces"
    assert sent == [("process in", 1_500_000_000, 2_000_000_000), ("send out", 1_500_000_000, 2_000_000_000)]
    assert next(
        attribute.value.string_value for attribute in resource.resource.attributes if attribute.key == "service.name"
    ) == (name or "app")


def test_spans_reach_a_collector_by_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    with collectors.by_grpc(add_TraceServiceServicer_to_server, ExportTraceServiceResponse()) as (address, received):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        spans = tracing.opened(environment, "app", lambda: 2_000_000_000)
        assert spans is not None
        spans.fired(("in", 0), {}, 0.5, [])
        spans.flush(20)
    [request] = received
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == ["process in"]
