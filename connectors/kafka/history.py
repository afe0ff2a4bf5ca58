"""Reads an agent's topics and the offsets of its group for commands, without joining the group."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import ConfigResource

from sluicegate.connectors.kafka import facts, problems, settings
from sluicegate.connectors.kafka.admin import TIMEOUT, described, members, open_admin
from sluicegate.connectors.kafka.ends import bounds
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import TopicFacts
from sluicegate.streams.errors import SystemNotReady

LOOK, PATIENCE = 0.5, 60  # seconds of one poll; how many polls in a row may find nothing
MOST = 10_000  # records of one poll


class KafkaHistory:
    """Satisfies sluicegate.streams.operations.rebuilding.rebuild_plan.History."""

    def __init__(self, kafka: settings.Settings, group: str) -> None:
        """Raises ConfigurationError for settings that librdkafka refuses."""
        self._kafka, self._group = kafka, group
        self._admin = open_admin(kafka)
        wanted = settings.consumer(kafka, group, "replay", lambda _error: None)
        self._consumer: Any = problems.client(Consumer, {**wanted, "enable.partition.eof": True})

    def close(self) -> None:
        self._consumer.close()

    # Past

    def facts(self, topic: str, number: int) -> TopicFacts:
        return facts.facts(self._admin, self._consumer, topic, number)

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return facts.offset_at(self._admin, topic, number, start)

    def read(self, topic: str, number: int, first: int, end: int) -> Iterator[Sequence[Record]]:
        """Raises SystemNotReady also for records behind an open transaction, because they never come."""
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
        """The next records, and the offset that was reached. Offsets at the end may have no record."""
        doing = f"reading {topic}/{number}"
        records: list[Record] = []
        reached = -1
        first = facts.ready_or_raise(lambda: self._consumer.poll(LOOK), doing)
        if first is None:
            return records, reached
        for message in [first, *facts.ready_or_raise(lambda: self._consumer.consume(MOST, 0), doing)]:
            error = message.error()
            if error is None:
                records.append(cast(Record, message))
                reached = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached = max(reached, message.offset())
            elif problems.halting(error) is not None or not problems.is_transient(error):
                raise problems.not_ready(f"{doing} failed", error)
        return records, reached

    # Topics

    def spans(self, topic: str) -> Sequence[tuple[int, int]]:
        description = described(self._admin, [topic])[topic]
        if description is None:
            raise SystemNotReady(f"Kafka: there is no topic {topic}")
        places = [(topic, number) for number in range(description.partitions)]
        return list(bounds(self._admin, places).values())

    def compacted(self, topics: Sequence[str]) -> list[str]:
        return [topic for topic in topics if "compact" in self._policy(topic)]

    def _policy(self, topic: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        future = self._admin.describe_configs([resource], request_timeout=TIMEOUT)[resource]
        return str(problems.answer(future, TIMEOUT + 1, f"describing topic {topic}")["cleanup.policy"].value)

    # Members

    def members(self) -> int:
        return members(self._kafka, [self._group])[self._group]

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        place = TopicPartition(topic, number, offset, metadata=metadata)
        facts.only_answer(
            lambda: self._consumer.commit(offsets=[place], asynchronous=False), f"committing to group {self._group}"
        )
