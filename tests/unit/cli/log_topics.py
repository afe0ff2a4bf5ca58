"""The topics that a command sees, in memory."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from sluicegate.streams.agent import App
from sluicegate.streams.cli.letters import BrokerTopics
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import OutboxRow, TopicFacts
from sluicegate.streams.testing.log import Log, LogInput


class LogTopics(BrokerTopics):
    log = Log()
    groups: ClassVar[dict[str, str]] = {}

    def __init__(self, app: App) -> None: ...

    def places(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [
            (topic, number) for topic in sorted(set(topics)) for number in range(len(self.log.topics.get(topic, ())))
        ]

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return {place: (self.log.low.get(place, 0), self.log.high(*place)) for place in places}

    def read(self, parts: Mapping[TopicPartition, tuple[int, int]]) -> Iterable[Record]:
        return [
            m
            for place, (first, end) in parts.items()
            for m in self.log.topics[place[0]][place[1]]
            if max(first, self.log.low.get(place, 0)) <= m.o < end
        ]

    def facts(self, group: str, topic: str, number: int) -> TopicFacts:
        return LogInput(self.log, group).facts(topic, number)

    def readers(self, topics: Iterable[str]) -> dict[str, str]:
        return self.groups

    def send(self, rows: Sequence[OutboxRow]) -> None:
        for row in rows:
            self.log.append(row.topic, row.partition, row.key, row.value, list(row.headers))
