"""The Prometheus metrics, from the newest report of every worker and from the supervisor."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector as PrometheusCollector

from sluicegate.streams.contracts.values import LEVELS
from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.metrics import METRICS, Meter, Metric, Sample
from sluicegate.streams.observe.report import PartitionReport, WorkerReport

PREFIX = "sluicegate_"
LabeledValue = tuple[list[str], float | list[float]]
"""The values of the labels, and the value as in Sample."""


class Collector(PrometheusCollector):
    """Merges the newest reports of all workers under the labels `agent` and `worker`."""

    def __init__(self, board: Board, own: Meter) -> None:
        self._board = board
        self._own = own

    def collect(self) -> Iterator[Family]:
        """Every metric of METRICS, including metrics without a value."""
        for metric, values in gathered(self._board, self._own):
            yield _family(metric, values)


def gathered(board: Board, own: Meter) -> Iterator[tuple[Metric, Sequence[LabeledValue]]]:
    """Every metric of METRICS with its values."""
    values: dict[str, list[LabeledValue]] = {}
    for report in board.reports():
        worker = [report.agent, str(report.worker)]
        for name, labels, value in [*report.metrics, *gauges(report, board.silence(report))]:
            values.setdefault(name, []).append(([*worker, *labels], value))
    for name, labels, value in own.snapshot():
        values.setdefault(name, []).append((list(labels), value))
    for (agent, number), ready in board.readiness():
        values.setdefault("ready", []).append(([agent, str(number)], float(ready)))
    return ((metric, values.get(metric.name, ())) for metric in METRICS)


def labels_of(metric: Metric) -> list[str]:
    """The names of its labels, in the order of a LabeledValue."""
    return list(metric.labels) if metric.source == "supervisor" else ["agent", "worker", *metric.labels]


def exposition(board: Board, own: Meter) -> bytes:
    """The metrics in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector(board, own))
    return generate_latest(registry)


def gauges(report: WorkerReport, silence: float) -> Iterator[Sample]:
    """The gauges that are computed from a report that is `silence` seconds old."""
    for partition in report.partitions:
        where = (partition.topic, str(partition.number))
        for name, value in _partition_gauges(partition.later(silence)):
            if value is not None:
                yield name, where, value
    yield "halted_partitions", (), sum(partition.state == "halted" for partition in report.partitions)
    if report.level is not None:
        for level in LEVELS:
            yield "level", (level,), float(report.level[0] == level)


def _partition_gauges(partition: PartitionReport) -> Iterable[tuple[str, float | None]]:
    due = partition.next_deadline
    return (
        ("open_groups", partition.groups),
        ("buffered_bytes", partition.bytes),
        ("oldest_group_age_seconds", partition.oldest or 0.0),
        ("next_deadline_lag_seconds", max(0.0, -due) if due is not None else 0.0),
        ("outbox_pending", partition.unsent),
        ("outbox_oldest_pending_age_seconds", partition.unsent_age or 0.0),
        ("consumer_lag_records", partition.lag),
        ("consumer_lag_seconds", partition.lag_seconds),
        ("origin_lag_seconds", partition.origin_lag),
        ("watermark_lag_seconds", partition.watermark_lag),
    )


def _family(metric: Metric, samples: Iterable[LabeledValue]) -> Family:
    labels = labels_of(metric)
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(PREFIX + metric.name, metric.meaning, labels=labels)
        bounds = [*map(str, metric.buckets), "+Inf"]
        for values, counts in samples:
            assert isinstance(counts, list)
            histogram.add_metric(values, list(zip(bounds, accumulate(counts[:-1]), strict=True)), counts[-1])
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(PREFIX + metric.name, metric.meaning, labels=labels)
    for values, value in samples:
        assert not isinstance(value, list)
        family.add_metric(values, value)
    return family
