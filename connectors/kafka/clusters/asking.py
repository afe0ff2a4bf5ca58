"""Requests about topics of several clusters. Each cluster is asked about its own topics under the names that its
brokers know. The answers have the product's names (sluicegate.streams.topic_names)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from sluicegate.connectors.kafka.settings import Settings
from sluicegate.streams.agent import Clusters
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.topic_names import cluster_of, on_cluster, plain

T = TypeVar("T")


def several(kafka: Settings) -> bool:
    return isinstance(kafka, Clusters) and bool(kafka.others)


def settings_of(kafka: Settings, cluster: str) -> Settings:
    """The settings of the cluster that topics name `cluster`."""
    return kafka.of(cluster) if isinstance(kafka, Clusters) else kafka


def of_topics(kafka: Settings, values: Mapping[str, T]) -> Iterator[tuple[str, Settings, dict[str, T]]]:
    """For each cluster of the topics: its name, its settings, and the values of its topics."""
    for cluster in dict.fromkeys(map(cluster_of, values)):
        of = settings_of(kafka, cluster)
        yield cluster, of, {plain(topic): value for topic, value in values.items() if cluster_of(topic) == cluster}


def of_places(
    kafka: Settings, values: Mapping[TopicPartition, T]
) -> Iterator[tuple[str, Settings, dict[TopicPartition, T]]]:
    """Same as `of_topics`, for partitions."""
    for cluster in dict.fromkeys(cluster_of(topic) for topic, _ in values):
        own = {(plain(place[0]), place[1]): value for place, value in values.items() if cluster_of(place[0]) == cluster}
        yield cluster, settings_of(kafka, cluster), own


def by_topic(
    kafka: Settings, topics: Iterable[str], ask: Callable[[Settings, list[str]], Mapping[str, T]]
) -> dict[str, T]:
    """Joins the answers of `ask` from each cluster. Raises the errors of `ask`, with the name of the cluster."""
    if not several(kafka):
        return dict(ask(kafka, list(topics)))
    answers: dict[str, T] = {}
    for cluster, of, own in of_topics(kafka, dict.fromkeys(topics)):
        with naming_cluster(of):
            answers |= {on_cluster(name, cluster): answer for name, answer in ask(of, list(own)).items()}
    return answers


def by_place(
    kafka: Settings,
    places: Iterable[TopicPartition],
    ask: Callable[[Settings, list[TopicPartition]], Mapping[TopicPartition, T]],
) -> dict[TopicPartition, T]:
    """Same as `by_topic`, for partitions."""
    if not several(kafka):
        return dict(ask(kafka, list(places)))
    answers: dict[TopicPartition, T] = {}
    for cluster, of, own in of_places(kafka, dict.fromkeys(places)):
        with naming_cluster(of):
            answers |= {(on_cluster(place[0], cluster), place[1]): reply for place, reply in ask(of, list(own)).items()}
    return answers


@contextmanager
def naming_cluster(kafka: Settings) -> Iterator[None]:
    """Adds the name of the cluster to errors of the block, if there are several clusters."""
    try:
        yield
    except SystemNotReady as error:
        name = kafka.name if isinstance(kafka, Clusters) else ""
        if name and error.args:
            error.args = (f"cluster {name}: {error.args[0]}", *error.args[1:])
        raise


def renamed(record: Any, cluster: str) -> Record:
    """Gives the message of a cluster's consumer the product's name of its topic."""
    record.set_topic(on_cluster(record.topic(), cluster))
    return cast(Record, record)
