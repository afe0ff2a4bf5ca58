"""What Kafka has of an agent's topics and of its group, without being a member of it: for commands."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource

from sluicegate.connectors.kafka import facts, problems, settings
from sluicegate.connectors.kafka.admin import TIMEOUT, described, open_admin
from sluicegate.connectors.kafka.ends import ends
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import TopicFacts
from sluicegate.streams.errors import SystemNotReady

LOOK, PATIENCE = 0.5, 60  # seconds of one look, and how many may find nothing before the end
MOST = 10_000


class KafkaHistory:
    """Satisfies sluicegate.streams.operations.rebuild_plan.History."""

    def __init__(self, kafka: settings.Settings, group: str) -> None:
        """Raises ConfigurationError for settings that librdkafka refuses."""
        self._kafka, self._group = kafka, group
        self._admin = open_admin(kafka)
        wanted = settings.consumer(kafka, group, "replay", lambda _error: None)
        try:
            self._consumer: Any = Consumer({**wanted, "enable.partition.eof": True})
        except KafkaException as error:
            raise problems.refused(error) from error

    def close(self) -> None:
        self._consumer.close()

    # Past

    def facts(self, topic: str, number: int) -> TopicFacts:
        return facts.facts(self._admin, self._consumer, topic, number)

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return facts.offset_at(self._consumer, topic, number, start)

    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]:
        """What an open transaction hides does not come: SystemNotReady in the end."""
        if first >= end:
            return
        self._consumer.assign([TopicPartition(topic, number, first)])
        position, silent = first, 0
        try:
            while position < end:
                records, reached = self._some(topic, number)
                silent = 0 if reached > position else silent + 1
                position = max(position, reached)
                if inside := [record for record in records if record.offset() < end]:
                    yield inside
                if silent > PATIENCE:
                    raise SystemNotReady(
                        f"Kafka: {topic}/{number}: nothing comes from offset {position} on (an open transaction?)"
                    )
        finally:
            self._consumer.unassign()

    def _some(self, topic: str, number: int) -> tuple[list[Record], int]:
        """The next records, and the offset behind what came: offsets at the end may have no record."""
        first = facts.asked(lambda: self._consumer.poll(LOOK), f"reading {topic}/{number}")
        more = (
            facts.asked(lambda: self._consumer.consume(MOST, 0), f"reading {topic}/{number}")
            if first is not None
            else []
        )
        records: list[Record] = []
        reached = -1
        for message in [first, *more] if first is not None else []:
            error = message.error()
            if error is None:
                records.append(cast(Record, message))
                reached = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = max(reached, message.offset())
            elif problems.halting(error) is not None or not problems.passes(error):
                raise problems.not_ready(f"reading {topic}/{number} failed", error)
        return records, reached

    # Topics

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        found = described(self._admin, [topic])[topic]
        if found is None:
            raise SystemNotReady(f"Kafka: there is no topic {topic}")
        places = [(topic, number) for number in range(found.partitions)]
        high = ends(self._kafka, places)  # the consumer's own would end before the first open transaction
        return [(facts.span(self._consumer, *place)[0], high[place]) for place in places]

    def compacted(self, topics: Sequence[str]) -> list[str]:
        return [topic for topic in topics if "compact" in self._policy(topic)]

    def _policy(self, topic: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            future = self._admin.describe_configs([resource], request_timeout=TIMEOUT)[resource]
            return str(problems.answer(future, TIMEOUT + 1, f"describing topic {topic}")["cleanup.policy"].value)
        except KafkaException as error:
            raise problems.not_ready(f"describing topic {topic} failed", error) from error

    # Members

    def members(self) -> int:
        future = self._admin.describe_consumer_groups([self._group], request_timeout=TIMEOUT)[self._group]
        try:
            return len(problems.answer(future, TIMEOUT + 1, f"describing group {self._group}").members)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            raise problems.not_ready(f"describing group {self._group} failed", error) from error

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        place = TopicPartition(topic, number, offset, metadata=metadata)
        [answer] = facts.asked(
            lambda: self._consumer.commit(offsets=[place], asynchronous=False), f"committing to group {self._group}"
        )
        if answer.error is not None:
            raise problems.not_ready(f"committing to group {self._group} failed", answer.error)
