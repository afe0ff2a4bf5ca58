"""Producers and readers for topics of several clusters. Each cluster has its own, opened when it is first needed. A row
for another cluster than the default one is sent under the topic's plain name."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from sluicegate.connectors.kafka import settings
from sluicegate.connectors.kafka.clusters.asking import naming_cluster, renamed, settings_of, several
from sluicegate.connectors.kafka.history import KafkaHistory
from sluicegate.connectors.kafka.producer import KafkaProducer, SingleReport
from sluicegate.connectors.kafka.table import KafkaTable
from sluicegate.streams.agent import Clusters
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import BatchReports, DeliveryReport
from sluicegate.streams.contracts.values import OutboxRow, TopicFacts
from sluicegate.streams.errors import TopicMissing
from sluicegate.streams.topic_names import CLUSTER, cluster_of, plain


def open_producer(
    kafka: settings.Settings, defaults: settings.Settings = settings.PRODUCER_DEFAULTS
) -> "KafkaProducer | RoutedProducer":
    """A producer with these settings of librdkafka; it connects when first used. Raises ConfigurationError."""
    if isinstance(kafka, Clusters) and kafka.others:
        return RoutedProducer(kafka, defaults)
    return KafkaProducer(kafka, defaults=defaults)


def open_history(kafka: settings.Settings, group: str, cluster: str = "") -> "KafkaHistory | RoutedHistory":
    """Opens a history; the consumer group is in `cluster`. Raises ConfigurationError."""
    return RoutedHistory(kafka, group, cluster) if several(kafka) else KafkaHistory(kafka, group)


def open_table(kafka: settings.Settings, topic: str) -> KafkaTable:
    """Opens a table. Raises SystemNotReady for a topic that does not exist, and ConfigurationError."""
    of = settings_of(kafka, cluster_of(topic))
    with naming_cluster(of):
        return KafkaTable(of, plain(topic))


class ClusterProducer:
    """The producer of one of several clusters. It is opened with the first row, or the first question about a topic.
    Satisfies sluicegate.streams.contracts.stores.Producer."""

    def __init__(self, kafka: Clusters, names: Collection[str], defaults: settings.Settings) -> None:
        """`names` are the names of the cluster in topics. A row for any other cluster is refused."""
        self._kafka, self._names, self._defaults = kafka, names, defaults
        self._opened: KafkaProducer | None = None
        self._strangers: list[tuple[BatchReports, OutboxRow]] = []

    @property
    def _producer(self) -> KafkaProducer:
        if self._opened is None:
            self._opened = KafkaProducer(self._kafka, defaults=self._defaults)
        return self._opened

    def produce(self, row: OutboxRow, report: DeliveryReport) -> bool:
        """Hand over one row. False: the queue is full, and the row was not taken."""
        if cluster_of(row.topic) in self._names or CLUSTER not in row.topic:
            return self._producer.produce(replace(row, topic=plain(row.topic)), report)
        self._strangers.append((SingleReport(report), row))
        return True

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        if not any(CLUSTER in row.topic for row in rows):
            return self._producer.produce_all(rows, reports)
        taken = 0
        for ours, group in groupby(rows, lambda row: cluster_of(row.topic) in self._names):
            part = list(group)
            if not ours:
                self._strangers += [(reports, row) for row in part]
                taken += len(part)
                continue
            own = [replace(row, topic=plain(row.topic)) for row in part]
            taken += (count := self._producer.produce_all(own, reports))
            if count < len(own):
                break
        return taken

    def send_now(self) -> None:
        if self._opened is not None:
            self._opened.send_now()

    def poll(self) -> int:
        self._refuse()
        with naming_cluster(self._kafka):
            return 0 if self._opened is None else self._opened.poll()

    def _refuse(self) -> None:
        """Reports the rows of unknown clusters. Like all reports, these come from `poll` and not from the call that
        took the row."""
        strangers, self._strangers = self._strangers, []
        for reports, row in strangers:
            reports.refused(row.number, "rejected", f"kafka has no cluster {cluster_of(row.topic)}")

    def replace(self) -> None:
        if self._opened is not None:
            self._opened.replace()

    def partitions(self, topic: str) -> int:
        with naming_cluster(self._kafka):
            return self._producer.partitions(plain(topic))

    def partition_of(self, key: bytes, count: int) -> int:
        return self._producer.partition_of(key, count)

    def flush(self, timeout: float) -> int:
        self._refuse()
        return 0 if self._opened is None else self._opened.flush(timeout)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


class RoutedProducer:
    """Sends each row with the producer of its cluster. `outputs` holds the producers by the cluster's name in topics.
    Satisfies sluicegate.streams.contracts.stores.Producer."""

    def __init__(self, kafka: Clusters, defaults: settings.Settings) -> None:
        self.outputs: Mapping[str, ClusterProducer] = {
            name: ClusterProducer(kafka.of(name), (name or kafka.name, name), defaults) for name in kafka.names
        }
        self._every = list(self.outputs.values())
        self._default = self._every[0]
        self.partition_of = self._default.partition_of
        self._own_name = kafka.name

    def _of(self, topic: str) -> ClusterProducer:
        """The producer of the topic's cluster. The producer of the default cluster refuses rows of unknown clusters."""
        return self.outputs.get(cluster_of(topic), self._default)

    def produce(self, row: OutboxRow, report: DeliveryReport) -> bool:
        """Same as KafkaProducer.produce."""
        return self._of(row.topic).produce(row, report)

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        taken = 0
        for producer, part in groupby(rows, lambda row: self._of(row.topic)):
            own = list(part)
            taken += (count := producer.produce_all(own, reports))
            if count < len(own):
                break
        return taken

    def send_now(self) -> None:
        for producer in self._every:
            producer.send_now()

    def poll(self) -> int:
        return sum(producer.poll() for producer in self._every)

    def replace(self) -> None:
        for producer in self._every:
            producer.replace()

    def partitions(self, topic: str) -> int:
        cluster = cluster_of(topic)
        if cluster not in self.outputs and cluster != self._own_name:
            raise TopicMissing(f"kafka has no cluster {cluster}, which topic {topic} is in")
        return self._of(topic).partitions(topic)

    def flush(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        return sum(producer.flush(max(0.0, deadline - time.monotonic())) for producer in self._every)

    def close(self) -> None:
        for producer in self._every:
            producer.close()


class RoutedHistory:
    """Reads each topic in its cluster. Satisfies sluicegate.streams.operations.rebuilding.rebuild_plan.History."""

    def __init__(self, kafka: settings.Settings, group: str, cluster: str) -> None:
        self._kafka, self._group, self._cluster = kafka, group, cluster
        self._opened: dict[str, KafkaHistory] = {}

    def _in(self, cluster: str) -> KafkaHistory:
        if cluster not in self._opened:
            self._opened[cluster] = KafkaHistory(settings_of(self._kafka, cluster), self._group)
        return self._opened[cluster]

    def _of(self, topic: str) -> KafkaHistory:
        return self._in(cluster_of(topic))

    def close(self) -> None:
        for history in self._opened.values():
            history.close()

    def facts(self, topic: str, number: int) -> TopicFacts:
        return self._of(topic).facts(plain(topic), number)

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return self._of(topic).offset_at(plain(topic), number, start)

    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]:
        cluster = cluster_of(topic)
        for records in self._in(cluster).read(plain(topic), number, first, end):
            yield [renamed(record, cluster) for record in records] if cluster else records

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        return self._of(topic).spans(plain(topic))

    def compacted(self, topics: Sequence[str]) -> list[str]:
        return [topic for topic in topics if self._of(topic).compacted([plain(topic)])]

    def members(self) -> int:
        return self._in(self._cluster).members()

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        self._of(topic).inform(plain(topic), number, offset, metadata)
