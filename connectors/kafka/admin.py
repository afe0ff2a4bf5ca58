"""Describes and creates topics through Kafka's admin protocol. Describing a topic never creates it."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from sluicegate.connectors.kafka import problems, settings
from sluicegate.streams.errors import NotAuthenticated

TIMEOUT = 5.0

GroupAssignments = Sequence[tuple[str, Sequence[tuple[str, int]]]]
"""The members of a group by their client id, each with its partitions."""


class _Admin(AdminClient):  # type: ignore[misc]
    """Keeps the errors by which the brokers refused it: its requests only time out."""

    def __init__(self, kafka: settings.Settings) -> None:
        self._kafka, self._heard = kafka, deque[Any](maxlen=20)
        super().__init__({**settings.admin(kafka), "error_cb": self._heard.append})

    def turned_away(self) -> NotAuthenticated | None:
        self.poll(0)
        return next((refusal for error in self._heard if (refusal := problems.turned_away(error, self._kafka))), None)


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
    """Each topic; None: it does not exist. Raises SystemNotReady within `timeout` seconds, and NotAuthenticated."""
    topics: dict[str, TopicDescription | None] = {}
    for name, future in admin.describe_topics(TopicCollection(list(names)), request_timeout=timeout).items():
        doing = f"describing topic {name}"
        topic = problems.answer(future, timeout + 1, doing, admin.turned_away, problems.MISSING)
        topics[name] = None if topic is None else topic_of(topic)
    return topics


def existing(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> dict[str, int | None]:
    """The number of partitions of each topic; None: it does not exist. Raises SystemNotReady within `timeout`
    seconds."""
    topics = described(open_admin(kafka), names, timeout)
    return {name: None if topic is None else topic.partitions for name, topic in topics.items()}


def create(
    kafka: settings.Settings, wanted: Mapping[str, int], compacted: Collection[str] = (), timeout: float = 30.0
) -> list[str]:
    """Create the topics that do not exist, with the brokers' default replication; returns their names. Raises
    SystemNotReady."""
    admin = open_admin(kafka)
    there = described(admin, list(wanted), timeout) if wanted else {}
    missing = [name for name in wanted if there[name] is None]
    if not missing:
        return []
    futures = admin.create_topics(
        [_new(name, wanted[name], name in compacted) for name in missing], request_timeout=timeout
    )
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
    """The number of members of each consumer group; 0 for one that does not exist. Raises SystemNotReady within
    `timeout` seconds."""
    admin = open_admin(kafka)
    futures = admin.describe_consumer_groups(list(groups), request_timeout=timeout) if groups else {}
    return {group: _members(group, future, timeout) for group, future in futures.items()}


def assignments(kafka: settings.Settings, group: str, timeout: float = TIMEOUT) -> GroupAssignments | None:
    """None while the group has no members, or gives them partitions. Raises SystemNotReady within `timeout` seconds."""
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
    """None: there is no such group."""
    unknown = (KafkaError.GROUP_ID_NOT_FOUND,)
    return problems.answer(future, timeout + 1, f"describing group {group}", absent=unknown)


def durability(
    kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT
) -> dict[str, tuple[int, int | None]]:
    """(replication factor, min.insync.replicas) of each topic that exists; None: the brokers do not say.

    Raises SystemNotReady within `timeout` seconds.
    """
    admin = open_admin(kafka)
    topics = {name: topic for name, topic in described(admin, names, timeout).items() if topic is not None}
    return {
        name: (topic.replication, _setting(admin, name, "min.insync.replicas", timeout))
        for name, topic in topics.items()
    }


def retention(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> dict[str, float | None]:
    """For how many seconds each topic keeps its records (infinity: for ever); None: the brokers do not say.

    Raises SystemNotReady within `timeout` seconds.
    """
    admin = open_admin(kafka)
    kept = {name: _setting(admin, name, "retention.ms", timeout) for name in names}
    return {name: None if ms is None else inf if ms < 0 else ms / 1000 for name, ms in kept.items()}


def largest(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> dict[str, int | None]:
    """The bytes of the largest message of each topic; None: the brokers do not say.

    Raises SystemNotReady within `timeout` seconds.
    """
    admin = open_admin(kafka)
    return {name: _setting(admin, name, "max.message.bytes", timeout) for name in names}


def chosen_by_producers(kafka: settings.Settings, names: Sequence[str], timeout: float = TIMEOUT) -> list[str]:
    """The topics in which a producer chooses the compression. Raises SystemNotReady within `timeout` seconds."""
    admin = open_admin(kafka)
    return [name for name in names if _text(admin, name, "compression.type", timeout) == "producer"]


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
