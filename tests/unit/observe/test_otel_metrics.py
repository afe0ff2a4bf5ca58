"""The metrics reach a collector of OpenTelemetry: the same names, labels and values as at `/metrics`."""

import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import add_MetricsServiceServicer_to_server
from prometheus_client.parser import text_string_to_metric_families as families

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe import otel_metrics
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.collector import exposition
from sluicegate.streams.observe.metrics import METRICS, Meter
from sluicegate.streams.observe.otel_metrics import ExportedMetrics, MetricExport
from sluicegate.streams.observe.report import PartitionReport, WorkerReport
from tests import collectors

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
PARTITION = PartitionReport("in", 0, "owned")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "PROTOCOL", "METRICS_ENDPOINT", "METRICS_PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name in ("METRICS_EXPORTER", "METRIC_EXPORT_INTERVAL", "SDK_DISABLED", "SERVICE_NAME", "RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(f"OTEL_{name}", raising=False)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, ()),
        (ENDPOINT, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/v1/metrics"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/v1/traces"}, ()),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ()),
        ({**ENDPOINT, "OTEL_METRICS_EXPORTER": "none"}, ()),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, ()),
        ({"OTEL_METRICS_EXPORTER": "prometheus,console"}, ("console",)),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, ()),
    ],
)
def test_opentelemetrys_own_variables_ask_for_metrics(environment: dict[str, str], names: tuple[str, ...]) -> None:
    assert otel_metrics.requested_exporters(environment) == names


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        (
            {"OTEL_METRICS_EXPORTER": "statsd"},
            "OTEL_METRICS_EXPORTER: there is no exporter 'statsd'; known are console, none, otlp and prometheus",
        ),
        (
            {**ENDPOINT, "OTEL_METRIC_EXPORT_INTERVAL": "0"},
            "OTEL_METRIC_EXPORT_INTERVAL is '0': write a number of milliseconds above 0",
        ),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json': write http/protobuf or grpc",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused(environment: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        otel_metrics.requested_exporters(environment)


def filled() -> Meter:
    """Each metric of a worker's meter has a value."""
    meter = Meter()
    for number, metric in enumerate(METRICS, 1):
        labels = dict.fromkeys(metric.labels, "x")
        if metric.source == "worker" and metric.kind == "counter":
            meter.count(metric.name, number, **labels)
        elif metric.source == "worker" and metric.kind == "gauge":
            meter.set(metric.name, number, **labels)
        elif metric.source == "worker":
            meter.observe(metric.name, metric.buckets[0] / 2, number, **labels)
            meter.observe(metric.name, 1e9, 2, **labels)
    return meter


def a_board(meter: Meter, pid: int = 7) -> Board:
    board = Board(lambda: 0.0)
    worker(board, meter, pid)
    return board


def worker(board: Board, meter: Meter, pid: int) -> None:
    board.expect(("a", 0), pid)
    level = ("process", "")
    fields: dict[str, Any] = {"partitions": [PARTITION], "level": level}
    board.put(WorkerReport("a", 0, pid, 0.0, True, metrics=meter.snapshot(), **fields))


def supervisors() -> Meter:
    own = Meter()
    own.set("build_info", 1, version="1.2.3")
    own.count("worker_restarts", agent="a", worker="0")
    return own


Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def of_prometheus(text: str) -> Values:
    samples = [sample for family in families(text) for sample in family.samples]
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for sample in samples
        if not sample.name.endswith("_created")
    }


def of_otlp(request: ExportMetricsServiceRequest) -> Values:
    """As Prometheus names what a collector writes for it."""
    values: Values = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            labels = {attribute.key: attribute.value.string_value for attribute in point.attributes}
            if kind == "histogram":
                values |= of_histogram(metric.name, labels, point)
            else:
                name = metric.name + ("_total" if kind == "sum" else "")
                values[name, tuple(sorted(labels.items()))] = point.as_double
    return values


def of_histogram(name: str, labels: Mapping[str, str], point: Any) -> Values:
    bounds = [*map(str, point.explicit_bounds), "+Inf"]
    count, values = 0, {}
    for bound, times in zip(bounds, point.bucket_counts, strict=True):
        count += times
        values[f"{name}_bucket", tuple(sorted({**labels, "le": bound}.items()))] = float(count)
    plain = tuple(sorted(labels.items()))
    return {**values, (f"{name}_count", plain): float(point.count), (f"{name}_sum", plain): point.sum}


@pytest.fixture(params=["http", "grpc"])
def collected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The environment of an app that has a collector, and a function that gives what the collector was sent."""
    if request.param == "http":
        with collectors.by_http() as (address, received):
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
            yield (
                {"OTEL_EXPORTER_OTLP_ENDPOINT": address},
                lambda: [
                    ExportMetricsServiceRequest.FromString(body) for path, body in received if path == "/v1/metrics"
                ],
            )
        return
    with collectors.by_grpc(add_MetricsServiceServicer_to_server, ExportMetricsServiceResponse()) as (
        address,
        received,
    ):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment, lambda: received


def test_a_collector_gets_what_prometheus_gets(collected: Any) -> None:
    environment, received = collected
    board, own = a_board(filled()), supervisors()
    with otel_metrics.exported(environment, "app", board, own):
        wanted = of_prometheus(exposition(board, own).decode())
    [request] = received()  # at the end: the first interval is a minute
    assert of_otlp(request) == wanted
    assert len({name for name, _ in wanted}) > 60
    resource = {
        attribute.key: attribute.value.string_value for attribute in request.resource_metrics[0].resource.attributes
    }
    assert resource["service.name"] == "app"
    assert resource["service.instance.id"]


def test_the_resource_is_the_one_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=one,service.name=shop")
    data = ExportedMetrics("app", Board(lambda: 0.0), supervisors()).read(1)
    attributes = data.resource_metrics[0].resource.attributes
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("shop", "one")


def test_a_unit_does_not_change_the_name_for_prometheus() -> None:
    units = {metric.name: otel_metrics.unit(metric.name) for metric in METRICS}
    assert (units["commit_seconds"], units["restore_bytes"], units["fires"], units["ready"]) == ("s", "By", "", "")


def fires(source: ExportedMetrics, now: int) -> tuple[int, float]:
    metrics = source.read(now).resource_metrics[0].scope_metrics[0].metrics
    [point] = next(metric.data.data_points for metric in metrics if metric.name == "sluicegate_fires")
    return point.start_time_unix_nano, point.value


def test_the_counts_of_a_worker_that_was_started_again_begin_anew() -> None:
    meter = Meter()
    meter.count("fires", 5, reason="count")
    board = a_board(meter)
    source = ExportedMetrics("app", board, supervisors())
    began, value = fires(source, 2**62)
    meter.count("fires", 2, reason="count")
    worker(board, meter, 7)
    assert (began < 2**62, value, fires(source, 2**62 + 1)) == (True, 5, (began, 7))
    meter = Meter()
    meter.count("fires", 1, reason="count")
    worker(board, meter, 8)
    assert fires(source, 2**62 + 2) == (2**62 + 2, 1)
    assert fires(source, 2**62 + 3) == (2**62 + 2, 1)


class Exporter:
    """Fails the first time. `closed` lets the second export end."""

    def __init__(self) -> None:
        self.exports, self.again, self.closed = 0, threading.Event(), threading.Event()

    def export(self, data: Any) -> None:
        self.exports += 1
        if self.exports == 1:
            raise OSError("no route")
        self.again.set()
        assert self.closed.wait(20)


def test_an_exporter_that_fails_or_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_metrics, "LAST_SECONDS", 0.05)
    exporter = Exporter()
    export = MetricExport(ExportedMetrics("app", Board(lambda: 0.0), supervisors()), [exporter], 0.001)
    assert exporter.again.wait(20)
    export.close()
    exporter.closed.set()
