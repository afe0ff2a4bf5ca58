"""Describes and creates topics through Kafka's admin protocol. Describing a topic never creates it.

Functions that take settings ask each cluster about its own topics; those that take a client ask that cluster.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from sluicegate.connectors.kafka import problems, settings
from sluicegate.connectors.kafka.clusters.asking import by_topic, naming_cluster, of_topics
from sluicegate.streams.agent import Clusters
from sluicegate.streams.errors import SluicegateError
from sluicegate.streams.topic_names import on_cluster

TIMEOUT = 5.0
HIDDEN = problems.MISSING | {KafkaError.TOPIC_AUTHORIZATION_FAILED}

GroupAssignments = Sequence[tuple[str, Sequence[tuple[str, int]]]]
"""The members of a group by their client id, each with its partitions."""


class _Admin(AdminClient):  # type: ignore[misc]
    """An AdminClient that keeps the error of brokers that refuse it, or of a missing token. Its requests themselves
    only time out."""

    def __init__(self, kafka: settings.Settings) -> None:
        self._kafka, self._heard = kafka, deque[Any](maxlen=20)
        super().__init__({**settings.admin(kafka), "error_cb": self._heard.append})

    def turned_away(self) -> SluicegateError | None:
        self.poll(0)
        refusals = (problems.turned_away(error, self._kafka) or problems.no_token(error) for error in self._heard)
        return next((refusal for refusal in refusals if refusal is not None), None)


class TopicDescription(NamedTuple):
    """A topic as the brokers describe it. `id` is empty when they do not know it; `replication` is the lowest of all
    partitions."""

    id: str
    partitions: int
    replication: int


def open_admin(kafka: settings.Settings) -> Any:
    """An AdminClient, which connects with its first request. Raises ConfigurationError."""
    return problems.client(_Admin, kafka)


def described(admin: Any, names: Sequence[str], timeout: float = TIMEOUT) -> dict[str, TopicDescription | None]:
    """The description of each topic; None: the topic does not exist. Raises SystemNotReady within `timeout` seconds,
    and NotAuthenticated."""
    topics: dict[str, TopicDescription | None] = {}
    for name, future in admin.describe_topics(TopicCollection(list(names)), request_timeout=timeout).items():
        doing = f"describing topic {name}"
        topic = problems.answer(future, timeout + 1, doing, admin.turned_away, problems.MISSING)
        topics[name] = None if topic is None else topic_of(topic)
    return topics


def names(admin: Any, timeout: float = TIMEOUT) -> list[str]:
    """The names of all topics that the user may see. Raises SystemNotReady within `timeout` seconds, and
    NotAuthenticated."""
    try:
        listed = admin.list_topics(timeout=timeout).topics
    except KafkaException as error:
        raise admin.turned_away() or problems.not_ready("listing the topics failed", error) from error
    missing = {name for name, topic in listed.items() if topic.error is not None and topic.error.code() in HIDDEN}
    return sorted({*listed} - missing)


def names_of(kafka: Clusters, timeout: float = TIMEOUT) -> list[str]:
    """The names of all topics of all clusters. Raises as `names`."""
    every: list[str] = []
    for cluster in kafka.names:
        with naming_cluster(kafka.of(cluster)):
            every += [on_cluster(name, cluster) for name in names(open_admin(kafka.of(cluster)), timeout)]
    return every


def existing(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> dict[str, int | None]:
    """The number of partitions of each topic; None: it does not exist. Raises SystemNotReady within `timeout`
    seconds."""

    def ask(of: settings.Settings, own: Sequence[str]) -> dict[str, int | None]:
        topics = described(open_admin(of), own, timeout)
        return {name: None if topic is None else topic.partitions for name, topic in topics.items()}

    return by_topic(kafka, names, ask)


def create(
    kafka: settings.Settings, wanted: Mapping[str, int], compacted: Collection[str] = (), timeout: float = 30.0
) -> list[str]:
    """Create the topics that do not exist, with the brokers' default replication; returns their names. Raises
    SystemNotReady."""
    topics: list[str] = []
    for cluster, of, own in of_topics(kafka, wanted):
        new = {name: _new(name, count, on_cluster(name, cluster) in compacted) for name, count in own.items()}
        with naming_cluster(of):
            topics += [on_cluster(name, cluster) for name in _create(open_admin(of), new, timeout)]
    return topics


def _create(admin: Any, wanted: Mapping[str, Any], timeout: float) -> list[str]:
    there = described(admin, list(wanted), timeout)
    missing = [new for name, new in wanted.items() if there[name] is None]
    futures = admin.create_topics(missing, request_timeout=timeout) if missing else {}
    made = []
    for name, future in futures.items():
        try:
            problems.awaited(future, timeout + 1, f"creating topic {name}")
            made.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise problems.not_ready(f"creating topic {name} failed", error) from error
    return made


def _new(name: str, partitions: int, compacted: bool) -> Any:
    return NewTopic(name, partitions, config={"cleanup.policy": "compact"} if compacted else {})


def members(kafka: settings.Settings, groups: Sequence[str], timeout: float = TIMEOUT) -> dict[str, int]:
    """The number of members of each consumer group; 0 for a group that does not exist. Raises SystemNotReady within
    `timeout` seconds."""
    admin = open_admin(kafka)
    futures = admin.describe_consumer_groups(list(groups), request_timeout=timeout) if groups else {}
    return {group: _members(group, future, timeout) for group, future in futures.items()}


def assignments(kafka: settings.Settings, group: str, timeout: float = TIMEOUT) -> GroupAssignments | None:
    """The partitions of each member. None: the group has no members, or is in a rebalance. Raises SystemNotReady within
    `timeout` seconds."""
    admin = open_admin(kafka)
    [future] = admin.describe_consumer_groups([group], request_timeout=timeout).values()
    description = _description(group, future, timeout)
    if description is None or description.state != ConsumerGroupState.STABLE:
        return None
    return [
        (member.client_id, [(place.topic, place.partition) for place in member.assignment.topic_partitions])
        for member in description.members
    ]


def _members(group: str, future: Any, timeout: float) -> int:
    description = _description(group, future, timeout)
    return 0 if description is None else len(description.members)


def _description(group: str, future: Any, timeout: float) -> Any:
    """The description of the group; None: there is no such group."""
    unknown = (KafkaError.GROUP_ID_NOT_FOUND,)
    return problems.answer(future, timeout + 1, f"describing group {group}", absent=unknown)


def durability(
    kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT
) -> dict[str, tuple[int, int | None]]:
    """(replication factor, min.insync.replicas) of each topic that exists; None: the brokers do not say.

    Raises SystemNotReady within `timeout` seconds.
    """

    def ask(of: settings.Settings, own: Sequence[str]) -> dict[str, tuple[int, int | None]]:
        admin = open_admin(of)
        topics = {name: topic for name, topic in described(admin, own, timeout).items() if topic is not None}
        return {
            name: (topic.replication, _setting(admin, name, "min.insync.replicas", timeout))
            for name, topic in topics.items()
        }

    return by_topic(kafka, names, ask)


def retention(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> dict[str, float | None]:
    """The seconds for which each topic keeps its records (infinity: for ever); None: the brokers do not say. Raises
    SystemNotReady within `timeout` seconds."""
    retentions = _settings(kafka, names, "retention.ms", timeout)
    return {name: None if ms is None else inf if ms < 0 else ms / 1000 for name, ms in retentions.items()}


def largest(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> dict[str, int | None]:
    """The bytes of the largest message of each topic; None: the brokers do not say.

    Raises SystemNotReady within `timeout` seconds.
    """
    return _settings(kafka, names, "max.message.bytes", timeout)


def chosen_by_producers(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> list[str]:
    """The topics in which a producer chooses the compression. Raises SystemNotReady within `timeout` seconds."""

    def ask(of: settings.Settings, own: Sequence[str]) -> dict[str, bool]:
        admin = open_admin(of)
        return {name: _text(admin, name, "compression.type", timeout) == "producer" for name in own}

    return [name for name, chosen in by_topic(kafka, names, ask).items() if chosen]


def _settings(kafka: settings.Settings, names: Sequence[str], name: str, timeout: float) -> dict[str, int | None]:
    def ask(of: settings.Settings, own: Sequence[str]) -> dict[str, int | None]:
        admin = open_admin(of)
        return {topic: _setting(admin, topic, name, timeout) for topic in own}

    return by_topic(kafka, names, ask)


def _setting(admin: Any, topic: str, name: str, timeout: float) -> int | None:
    try:
        return int(_text(admin, topic, name, timeout) or "")
    except ValueError:
        return None


def _text(admin: Any, topic: str, name: str, timeout: float) -> str | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        future = admin.describe_configs([resource], request_timeout=timeout)[resource]
        value: str = problems.awaited(future, timeout + 1, f"describing topic {topic}")[name].value
    except (KafkaException, KeyError):
        return None
    return value


def topic_of(description: Any) -> TopicDescription:
    text = "" if description.topic_id is None else str(description.topic_id)
    known = "" if set(text) <= {"A"} else text  # 22 times A: the id of no topic
    partitions = description.partitions
    return TopicDescription(
        known, len(partitions), min((len(partition.replicas) for partition in partitions), default=0)
    )
