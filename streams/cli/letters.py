"""Dead letters and their topics in Kafka, as sluicegate.streams.operations.dead.dead_letters needs them."""

import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import closing

from sluicegate.connectors.kafka import ends, readers
from sluicegate.connectors.kafka.admin import existing, names_of
from sluicegate.connectors.kafka.clusters.inputs import open_input
from sluicegate.connectors.kafka.clusters.routed import open_producer
from sluicegate.connectors.kafka.scan import scan
from sluicegate.streams.agent import App
from sluicegate.streams.cli.opening.waiting import call_timeout
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import OutboxRow, TopicFacts
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from sluicegate.streams.operations.dead.dead_changes import newest_letters
from sluicegate.streams.operations.dead.dead_letters import SENDING, Letter
from sluicegate.streams.topic_names import cluster_of, matching, patterns, plain


class BrokerTopics:
    """The topics of an app, read without a consumer group. Satisfies
    sluicegate.streams.operations.dead.dead_changes.LetterTopics."""

    def __init__(self, app: App) -> None:
        """Raises ConfigurationError for the embedded broker."""
        if app.embedded:
            raise ConfigurationError("the embedded broker answers only its own run")
        self._kafka, self._timeout = app.brokers, call_timeout(app)

    def places(self, topics: Iterable[str]) -> list[TopicPartition]:
        """The partitions of the topics that exist. A pattern stands for each topic that it matches."""
        names = sorted(set(topics))
        if patterns(names):
            names = matching(names, names_of(self._kafka, self._timeout))
        counts = existing(self._kafka, names, self._timeout) if names else {}
        return [(topic, number) for topic, count in counts.items() for number in range(count or 0)]

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return ends.bounds_of(self._kafka, places, self._timeout)

    def ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: high for place, (_, high) in self.bounds(places).items()}

    def read(self, parts: Mapping[TopicPartition, tuple[int, int]]) -> Iterable[Record]:
        """Same as sluicegate.connectors.kafka.scan.scan."""
        return scan(self._kafka, parts)

    def since(self, starts: Mapping[TopicPartition, int]) -> Iterable[Record]:
        bounds_ = self.bounds(list(starts))
        return self.read({place: (max(start, bounds_[place][0]), bounds_[place][1]) for place, start in starts.items()})

    def newest(self, topics: Iterable[str], limit: int) -> tuple[Iterable[Record], int]:
        """The newest `limit` records of each partition, and the number of older records that are left out."""
        bounds_ = self.bounds(self.places(topics))
        older = sum(max(0, high - low - limit) for low, high in bounds_.values())
        return self.read({place: (max(low, high - limit), high) for place, (low, high) in bounds_.items()}), older

    def facts(self, group: str, topic: str, number: int) -> TopicFacts:
        """The facts as a worker of that group reads them."""
        with closing(open_input(self._kafka.of(cluster_of(topic)), group, (), "sluicegate")) as reader:
            return reader.facts(plain(topic), number)

    def readers(self, topics: Iterable[str]) -> dict[str, str]:
        """Same as sluicegate.connectors.kafka.readers.readers."""
        return readers.readers(self._kafka, {*topics}, self._timeout)

    def send(self, rows: Sequence[OutboxRow]) -> None:
        reports: list[tuple[str, str]] = []
        deadline = time.monotonic() + SENDING
        with closing(open_producer(self._kafka)) as producer:
            for row in rows:
                while not producer.produce(row, lambda outcome, text: reports.append((outcome, text))):
                    if time.monotonic() > deadline:
                        break
                    producer.flush(0.1)
            unsent = producer.flush(max(0.0, deadline - time.monotonic()))
        failed = [text for outcome, text in reports if outcome != "delivered"]
        if unsent or failed or len(reports) < len(rows):
            why = (failed or ["no answer"])[0]
            raise SystemNotReady(f"Kafka did not acknowledge all messages ({why}): run the same command again")


class Counts:
    """Counts the dead letters of each (agent, topic, partition) that `dead ls` lists and that were not retried. It
    reads them again only when their topics have changed."""

    def __init__(self, app: App, limit: int) -> None:
        self._app, self._limit = app, limit
        self._bounds: dict[TopicPartition, tuple[int, int]] | None = None
        self._letters: list[Letter] = []

    def read(self, retried: Container[str] = ()) -> Counter[tuple[str, str, int]]:
        """The counts, without the letters of these ids. Raises SystemNotReady, and ConfigurationError for the embedded
        broker."""
        topics = BrokerTopics(self._app)
        bounds = topics.bounds(topics.places({agent.dead_letters for agent in self._app.agents}))
        if bounds != self._bounds:
            names = [agent.name for agent in self._app.agents]
            self._letters, _ = newest_letters(self._app, topics, names, self._limit)
            self._bounds = bounds
        return Counter((letter.agent, *letter.source) for letter in self._letters if letter.id not in retried)
