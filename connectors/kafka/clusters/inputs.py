"""A worker's consumer of topics outside the default cluster. The worker knows them as TOPIC@CLUSTER, the brokers of the
cluster as TOPIC."""

from collections.abc import Callable, Sequence

from sluicegate.connectors.kafka.clusters.asking import renamed, settings_of
from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.connectors.kafka.probe import KafkaProbe
from sluicegate.connectors.kafka.settings import Settings
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import Input, TopicPartition
from sluicegate.streams.contracts.values import TopicFacts
from sluicegate.streams.topic_names import of_input, on_cluster, plain


def open_input(
    kafka: Settings,
    group: str,
    topics: Sequence[str],
    member: str,
    ends: bool = False,
    looks: bool = False,
    instance: str = "",
) -> Input:
    """A consumer of topics of one cluster. The parameters are as in KafkaInput."""
    cluster = of_input(topics)
    kafka_input = KafkaInput(
        settings_of(kafka, cluster), group, list(map(plain, topics)), member, ends, looks, instance
    )
    return ClusterInput(kafka_input, cluster) if cluster else kafka_input


class ClusterInput:
    """Wraps `made` and translates its topic names into the product's. Satisfies
    sluicegate.streams.contracts.stores.Input."""

    def __init__(self, made: KafkaInput, cluster: str) -> None:
        self._made, self._cluster = made, cluster
        self.close, self.joined = made.close, made.joined

    def _name(self, place: TopicPartition) -> TopicPartition:
        return on_cluster(place[0], self._cluster), place[1]

    def _names(self, topics: Sequence[str] | None) -> Sequence[str] | None:
        return None if topics is None else [on_cluster(topic, self._cluster) for topic in topics]

    # Records

    def poll(self, timeout: float) -> Record | None:
        record = self._made.poll(timeout)
        return None if record is None else renamed(record, self._cluster)

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        records = self._made.consume(most, timeout)
        for record in records:
            renamed(record, self._cluster)
        return records

    # Assignments

    def assigned(self) -> list[TopicPartition]:
        return list(map(self._name, self._made.assigned()))

    def revoked(self) -> list[TopicPartition]:
        return list(map(self._name, self._made.revoked()))

    def before_revoke(self, finish: Callable[[Sequence[TopicPartition]], object]) -> None:
        self._made.before_revoke(lambda places: finish(list(map(self._name, places))))

    def topics(self) -> Sequence[str] | None:
        return self._names(self._made.topics())

    def failures(self) -> list[tuple[TopicPartition, str, str]]:
        return [(self._name(place), code, text) for place, code, text in self._made.failures()]

    # Positions

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self._made.start(plain(topic), number, offset, epoch)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._made.pause([(plain(topic), number) for topic, number in partitions])

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._made.resume([(plain(topic), number) for topic, number in partitions])

    def resume_alone(self, topic: str, number: int, offset: int, epoch: int) -> None:
        self._made.resume_alone(plain(topic), number, offset, epoch)

    def spare(self) -> bool:
        return self._made.spare()

    def alone(self, topic: str, number: int) -> bool:
        return self._made.alone(plain(topic), number)

    def ended(self, topic: str, number: int) -> int:
        return self._made.ended(plain(topic), number)

    def look_again(self, topic: str, number: int) -> None:
        self._made.look_again(plain(topic), number)

    # Other processes

    def probe(self, topic: str, number: int, offset: int) -> KafkaProbe:
        return self._made.probe(plain(topic), number, offset)

    def bound(self, topic: str, number: int, until: int) -> None:
        self._made.bound(plain(topic), number, until)

    def bound_reached(self, topic: str, number: int) -> bool:
        return self._made.bound_reached(plain(topic), number)

    # Facts

    def facts(self, topic: str, number: int) -> TopicFacts:
        return self._made.facts(plain(topic), number)

    def existing(self) -> Sequence[str] | None:
        return self._names(self._made.existing())

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return self._made.offset_at(plain(topic), number, start)

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        self._made.inform(plain(topic), number, offset, metadata)

    def high(self, topic: str, number: int) -> int:
        return self._made.high(plain(topic), number)
