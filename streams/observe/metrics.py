"""The list of all metrics, and the `Meter` with which a worker counts.

A metric is exposed as `sluicegate_<name>`, and a counter with `_total`. Its first labels are `agent` and `worker`, and
its own labels follow. No label ever holds a record's key. Units are seconds, bytes and counts.
"""

from bisect import bisect_left
from typing import Literal, NamedTuple

MetricKind = Literal["counter", "gauge", "histogram"]
MetricSource = Literal["worker", "report", "supervisor"]

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0)


class Metric(NamedTuple):
    """A metric. `source` is the origin of its values: the worker's meter, the worker's report
    (sluicegate.streams.observe.report), or the supervisor. `buckets` are the upper bounds of a histogram, without the
    last one, which is infinite."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    source: MetricSource = "worker"


def _histogram(name: str, meaning: str, buckets: tuple[float, ...] = SECONDS) -> Metric:
    return Metric(name, "histogram", meaning, buckets=buckets)


def _reported(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "gauge", meaning, labels, source="report")


PARTITION = ("topic", "partition")

METRICS = (
    Metric("records_consumed", "counter", "Records taken from Kafka and judged."),
    Metric("records_duplicate", "counter", "Records dropped because they were certainly seen before."),
    Metric("ids_forgotten", "counter", "Ids forgotten before their time: max_ids of dedupe, or max_keys of correlate."),
    Metric("senders_forgotten", "counter", "Shards of senders that gave way to new ones: too many were named."),
    Metric(
        "headers_refused",
        "counter",
        "Records whose headers would have steered the agent and were not believed: `ahead` (a time mark), "
        "`unproven` (no MAC of the app).",
        ("reason",),
    ),
    Metric("records_late", "counter", "Records that came too late to be known as seen or not: taken."),
    Metric("records_skipped", "counter", "Records left out because the file says so (on_null, on_missing: skip)."),
    Metric(
        "expressions",
        "counter",
        "Answers of the file's expressions: true, false, or failed (the record is a dead letter, or as on_error says).",
        ("clause", "outcome"),
    ),
    Metric("windows_closed", "counter", "Results of windows. `late` are further and revised ones.", ("closed_by",)),
    Metric("legs_late", "counter", "Records of a correlation that were late."),
    Metric("records_past_window", "counter", "Records whose window had closed (late)."),
    Metric(
        "records_partly_late", "counter", "Records of which some hopping windows had closed: they count in the others."
    ),
    Metric("records_passed_over", "counter", "Records that `dead retry` wrote for another agent of the topic."),
    Metric("records_dead", "counter", "Records that became dead letters.", ("reason",)),
    _histogram("batch_records", "Records in one commit.", SIZES),
    _histogram("commit_seconds", "Time of one commit in the store."),
    Metric("calls_throttled", "counter", "How often a call of a handler waited because of `throttle`."),
    Metric("records_rate_limited", "counter", "Messages and groups that no handler got because of `rate_limit`."),
    Metric("fires", "counter", "Results of groups. An early one has the reason `early`.", ("reason",)),
    Metric("groups_discarded", "counter", "Groups that ended without a result (on_timeout: discard)."),
    _histogram("fire_latency_seconds", "From the record or deadline that ended a group to its commit."),
    Metric("dispatch_attempts", "counter", "Delivery reports of outbox rows.", ("outcome",)),
    Metric(
        "rows_delivered", "counter", "Outbox rows that the broker took, of agents with several outputs.", ("topic",)
    ),
    _histogram("dispatch_seconds", "From the hand-over of an outbox row to its delivery report."),
    Metric("dead_rows", "counter", "Outbox rows that the broker will never take.", ("reason",)),
    Metric("outbox_rows", "gauge", "Rows of applications and leased contracts in the store's outbox.", ("state",)),
    Metric("outbox_rows_oldest_age_seconds", "gauge", "Age of the oldest of them that is pending; 0 when none is."),
    Metric("retention_deleted", "counter", "Rows of the outbox deleted because they were sent long enough ago."),
    Metric(
        "lease_lost", "counter", "Lanes of the outbox and batches of the shared buffer lost while they were in hand."
    ),
    Metric("timeouts_armed", "gauge", "Timeouts that wait in the store."),
    Metric("timeouts_emitted", "counter", "Due timeouts that became rows of the outbox."),
    _histogram("timeout_lateness_seconds", "From when a timeout was due to when it was claimed."),
    Metric("table_rows", "gauge", "Rows of a topic that is looked up, in this process.", ("lookup",)),
    Metric("table_bytes", "gauge", "Memory that they take, roughly.", ("lookup",)),
    Metric("table_lag_records", "gauge", "Records of that topic that this process has not read.", ("lookup",)),
    Metric("table_records_undecodable", "counter", "Records of looked-up topics that are not rows."),
    Metric("claims", "counter", "Partitions claimed."),
    Metric("fenced_commits", "counter", "Commits refused because another process had claimed the partition."),
    _histogram("restore_seconds", "Time to rebuild a partition's state from the store."),
    Metric("restore_bytes", "counter", "Bytes read from the store to rebuild state."),
    Metric("rebalances", "counter", "Changes of the consumer group's assignment."),
    Metric("buffered_records", "gauge", "Records in the buffer of scope: shared; from one worker of the agent."),
    _reported("open_groups", "Groups that are not complete.", *PARTITION),
    _reported("buffered_bytes", "Bytes that open groups hold.", *PARTITION),
    _reported("oldest_group_age_seconds", "Age of the oldest open group.", *PARTITION),
    _reported("next_deadline_lag_seconds", "How long the nearest deadline is overdue; 0 when it is not.", *PARTITION),
    _reported("outbox_pending", "Outbox rows without a delivery report.", *PARTITION),
    _reported("outbox_oldest_pending_age_seconds", "Age of the oldest of them, as this owner knows it.", *PARTITION),
    _reported("consumer_lag_records", "Records from the committed offset to the end of the partition.", *PARTITION),
    _reported(
        "consumer_lag_seconds",
        "Age of the newest record taken, by its own time; before the first one, since the claim; 0 at the end.",
        *PARTITION,
    ),
    _reported(
        "origin_lag_seconds", "Age of the highest time of an input partition that is re-keyed for windows.", *PARTITION
    ),
    _reported("watermark_lag_seconds", "Age of the watermark of an agent with windows.", *PARTITION),
    _reported("halted_partitions", "Partitions that stopped because going on would lose or repeat."),
    _reported("level", "1 for the durability that the store really gives.", "level"),
    Metric(
        "ready",
        "gauge",
        "1 if the worker works, and 0 if not: then /readyz says why.",
        ("agent", "worker"),
        source="supervisor",
    ),
    Metric(
        "worker_restarts",
        "counter",
        "Worker processes started again after they ended.",
        ("agent", "worker"),
        source="supervisor",
    ),
    Metric("build_info", "gauge", "1, with the version in a label.", ("version",), source="supervisor"),
)

BY_NAME = {metric.name: metric for metric in METRICS}

Labels = tuple[str, ...]
Sample = tuple[str, Labels, float | list[float]]
"""(name, values of the labels in their order, value). The value of a histogram is its counts per bucket, then its
sum."""


class Meter:
    """The counts of one worker. One thread calls it once for each batch or commit."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, Labels], float] = {}
        self._histograms: dict[tuple[str, Labels], list[float]] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Adds to a counter. Raises ValueError if METRICS has no counter of this name with exactly these labels."""
        key = (name, _values(name, "counter", labels))
        self._numbers[key] = self._numbers.get(key, 0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge. Raises ValueError as `count` does."""
        self._numbers[name, _values(name, "gauge", labels)] = value

    def unset(self, name: str, **labels: str) -> None:
        """Removes a gauge. Raises ValueError as `count` does."""
        self._numbers.pop((name, _values(name, "gauge", labels)), None)

    def observe(self, name: str, value: float, times: int = 1, **labels: str) -> None:
        """Adds a value to a histogram `times` times. Raises ValueError as `count` does."""
        key = (name, _values(name, "histogram", labels))
        buckets = BY_NAME[name].buckets
        counts = self._histograms.get(key)
        if counts is None:
            counts = self._histograms[key] = [0.0] * (len(buckets) + 2)
        counts[bisect_left(buckets, value)] += times
        counts[-1] += value * times

    def snapshot(self) -> list[Sample]:
        """All current values, ready for JSON."""
        numbers: list[Sample] = [(name, labels, value) for (name, labels), value in self._numbers.items()]
        return numbers + [(name, labels, list(counts)) for (name, labels), counts in self._histograms.items()]


def _values(name: str, kind: MetricKind, labels: dict[str, str]) -> Labels:
    metric = BY_NAME.get(name)
    if metric is None or metric.kind != kind:
        raise ValueError(f"there is no {kind} named {name!r}")
    if metric.source == "report":
        raise ValueError(f"{name} is taken from the worker's report, not from its meter")
    if labels.keys() != set(metric.labels):
        raise ValueError(f"{name} has the labels {list(metric.labels)}, not {sorted(labels)}")
    return tuple([labels[label] for label in metric.labels])
