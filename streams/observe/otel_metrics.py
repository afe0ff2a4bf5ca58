"""Sends the Prometheus metrics to OpenTelemetry's exporters if its environment variables request metrics.

A metric has its Prometheus name without `_total`: a collector that exports to Prometheus derives the same name again.
All sums and histograms are cumulative.
"""

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import time_ns
from typing import TYPE_CHECKING, Any

import structlog

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.observe import otel
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.collector import PREFIX, LabeledValue, gathered, labels_of
from sluicegate.streams.observe.metrics import Meter, Metric

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
EVERY = 60_000  # milliseconds: OpenTelemetry's default
LAST_SECONDS = 3.0  # the time for the last export at the end of the run
UNITS = {"seconds": "s", "bytes": "By"}
SeriesStart = tuple[int, float]
"""The time at which a series began to count, in nanoseconds since 1970, and its newest count."""


def interval(environment: Mapping[str, str]) -> float:
    """The seconds between two exports. Raises ConfigurationError."""
    text = environment.get(INTERVAL, "").strip() or str(EVERY)
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ConfigurationError(f"{INTERVAL} is {text!r}: write a number of milliseconds above 0")
    return int(text) / 1000


def requested_exporters(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The exporters that the variables request. Raises ConfigurationError."""
    names = otel.requested_exporters(environment, otel.METRICS)
    if names:
        interval(environment)
    return names


@contextmanager
def exported(environment: Mapping[str, str], app: str, board: Board, own: Meter) -> Iterator[None]:
    """While the context is open, the metrics of the run are sent. Raises ConfigurationError."""
    if not requested_exporters(environment):
        yield
        return
    source = ExportedMetrics(app, board, own)
    export = MetricExport(source, otel.exporters(environment, otel.METRICS), interval(environment))
    try:
        yield
    finally:
        export.close()


class MetricExport:
    """Sends the values of `source` to all exporters at a fixed interval, from its own thread."""

    def __init__(self, source: "ExportedMetrics", exporters: Sequence[Any], seconds: float) -> None:
        self._source, self._exporters, self._seconds = source, exporters, seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics-export", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the newest values, waiting at most LAST_SECONDS."""
        self._closing.set()
        self._thread.join(LAST_SECONDS)

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            self._send()
        self._send()

    def _send(self) -> None:
        data = self._source.read(time_ns())
        for exporter in self._exporters:
            try:
                exporter.export(data)
            except Exception as error:  # exporters report outages themselves: this is another failure
                structlog.get_logger().warning("metrics.not_sent", error=f"{type(error).__name__}: {error}")


class ExportedMetrics:
    """Reads the metrics of a run as OpenTelemetry's data. If a series has a lower count than before, its worker was
    restarted, and the series begins again."""

    def __init__(self, app: str, board: Board, own: Meter) -> None:
        from opentelemetry.sdk.metrics import export
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._types, self._scope = export, InstrumentationScope("sluicegate")
        self._resource = otel.resource(app, **{"instance.id": f"{socket.gethostname()}-{os.getpid()}"})
        self._board, self._own = board, own
        self._began = time_ns()
        self._starts: dict[tuple[str, tuple[str, ...]], SeriesStart] = {}

    def read(self, now: int) -> "MetricsData":
        """The newest values at `now`, in nanoseconds since 1970. Metrics without a value are left out."""
        types = self._types
        metrics = [
            types.Metric(PREFIX + metric.name, metric.meaning, unit(metric.name), self._data(metric, values, now))
            for metric, values in gathered(self._board, self._own)
            if values
        ]
        scope = types.ScopeMetrics(self._scope, metrics, "")
        return types.MetricsData([types.ResourceMetrics(self._resource, [scope], "")])

    def _data(self, metric: Metric, values: Sequence[LabeledValue], now: int) -> Any:
        types, names = self._types, labels_of(metric)
        points = [self._point(metric, dict(zip(names, labels, strict=True)), value, now) for labels, value in values]
        cumulative = types.AggregationTemporality.CUMULATIVE
        match metric.kind:
            case "gauge":
                return types.Gauge(points)
            case "counter":
                return types.Sum(points, cumulative, is_monotonic=True)
            case _:
                return types.Histogram(points, cumulative)

    def _point(self, metric: Metric, labels: dict[str, str], value: Any, now: int) -> Any:
        """Numbers are floats: a series has one type."""
        key, number = (metric.name, tuple(labels.values())), self._types.NumberDataPoint
        if metric.kind == "gauge":
            return number(labels, 0, now, float(value))
        if metric.kind == "counter":
            return number(labels, self._start(key, value, now), now, float(value))
        counts = [int(count) for count in value[:-1]]
        start, total = self._start(key, sum(counts), now), sum(counts)
        return self._types.HistogramDataPoint(
            labels, start, now, total, float(value[-1]), counts, metric.buckets, None, None
        )

    def _start(self, key: tuple[str, tuple[str, ...]], count: float, now: int) -> int:
        start, before = self._starts.get(key, (self._began, 0.0))
        start = now if count < before else start
        self._starts[key] = start, count
        return start


def unit(name: str) -> str:
    """The unit in OpenTelemetry's notation. Counts have none: a unit 1 would make Prometheus treat them as ratios."""
    return UNITS.get(name.rpartition("_")[2], "")
