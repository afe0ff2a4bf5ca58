"""The rows of a partition that go to several clusters: each part is sent, reported and read back on its own."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sluicegate.connectors.kafka.clusters import routed
from sluicegate.streams.agent import Clusters
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.contracts.stores import BatchReports
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import TopicMissing
from sluicegate.streams.observe.metrics import Meter
from sluicegate.streams.outbox import relay as relay_module
from sluicegate.streams.outbox.relay import Relay
from sluicegate.streams.outbox.rows import shard_name
from sluicegate.streams.outbox.split import SplitRelay, SplitShard
from sluicegate.streams.reading.receive import ReceivedShards
from tests.unit.engine.test_relay import Broker, Outbox, row

CLUSTERS = ("", "west")


def rows(*numbers: int) -> list[OutboxRow]:
    """Odd numbers go to the other cluster."""
    return [replace(row(n), topic="out@west" if n % 2 else "out") for n in numbers]


class Scene:
    def __init__(self, claimed: int = 0) -> None:
        self.brokers = {name: Broker() for name in CLUSTERS}
        self.outbox = Outbox()
        self.outbox.rows = {row.number: row for row in rows(*range(1, claimed + 1))}
        self.shard = SplitShard(CLUSTERS, self.outbox.read, claimed, "t")
        self.relay = SplitRelay({n: Relay(self.brokers[n], Meter(), Backoff(0.1, 5.0, lambda: 0.5)) for n in CLUSTERS})

    def turn(self, now: float = 0.0) -> None:
        self.relay.turn([self.shard], now)

    def record(self) -> list[int]:
        delivered, dead = self.shard.take_reports()
        self.shard.recorded([*delivered, *(letter.number for letter in dead)])
        return delivered


def test_a_cluster_without_reports_holds_up_no_row_of_another() -> None:
    scene = Scene()
    for first in range(1, 40, 4):
        scene.shard.add(rows(*range(first, first + 4)), 0.0)
        scene.turn()
        for number in list(scene.brokers[""].open):
            scene.brokers[""].report(number)
    scene.turn()
    assert scene.record() == list(range(2, 41, 2))
    assert scene.brokers["west"].sent == list(range(1, 41, 2))
    assert (scene.shard.unsent, len(scene.shard.out)) == (20, 20)
    for number in list(scene.brokers["west"].open):
        scene.brokers["west"].report(number)
    assert scene.record() == list(range(1, 41, 2))
    assert not scene.shard.unsent


def test_a_producer_that_failed_sends_only_its_own_rows_again() -> None:
    scene = Scene()
    scene.shard.add(rows(1, 2, 3, 4), 0.0)
    scene.turn()
    scene.brokers["west"].report(1, "failed", "no")
    scene.brokers["west"].report(3, "failed", "no")
    scene.turn(0.1)
    scene.turn(9.0)
    assert (scene.brokers["west"].replaced, scene.brokers[""].replaced) == (1, 0)
    assert (scene.brokers["west"].sent, scene.brokers[""].sent) == ([1, 3, 1, 3], [2, 4])


def test_rows_of_an_earlier_claim_are_found_behind_those_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "FIRST_PAGE", 4)
    monkeypatch.setattr(relay_module, "PAGE", 4)
    scene = Scene()
    scene.outbox.rows = {n: replace(row(n), topic="out" if n == 50 else "out@west") for n in range(1, 51)}
    scene.shard = SplitShard(CLUSTERS, scene.outbox.read, 50, "t")
    scene.turn()
    assert scene.brokers[""].sent == [50]
    assert scene.brokers["west"].sent == [1, 2, 3, 4]


def test_too_many_rows_of_one_cluster_pause_the_intake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "IN_MEMORY", 10)
    scene = Scene()
    scene.shard.add([replace(row(n), topic="out@west") for n in range(1, 12)], 0.0)
    assert scene.shard.full
    assert not scene.shard.roomy
    scene.shard.add(rows(20), 0.0)
    scene.turn()
    assert scene.brokers[""].sent == [20]


class Producer:
    """What a KafkaProducer gets."""

    def __init__(self, kafka: Clusters, defaults: object = None) -> None:
        self.name = kafka.name
        self.sent: list[str] = []

    def produce_all(self, given_rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        self.sent += [row.topic for row in given_rows]
        return len(given_rows)

    def produce(self, one: OutboxRow, report: Any) -> bool:
        self.sent.append(one.topic)
        return True

    def partitions(self, topic: str) -> int:
        return len(topic)

    def poll(self) -> int:
        return 0


class Reports:
    def __init__(self) -> None:
        self.refusals: list[tuple[int, str, str]] = []

    def delivered(self, numbers: Sequence[int]) -> None: ...

    def refused(self, number: int, outcome: str, text: str) -> None:
        self.refusals.append((number, outcome, text))


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> routed.RoutedProducer:
    monkeypatch.setattr(routed, "KafkaProducer", Producer)
    made = routed.open_producer(Clusters({"bootstrap.servers": "a:1"}, {"west": {"bootstrap.servers": "b:1"}}, "east"))
    assert isinstance(made, routed.RoutedProducer)
    return made


def sent(producer: routed.RoutedProducer, cluster: str) -> list[str]:
    made: Any = producer.outputs[cluster]._producer
    return list(made.sent)


def test_a_row_goes_to_its_cluster_under_the_plain_name(producer: routed.RoutedProducer) -> None:
    four = [replace(row(n), topic=topic) for n, topic in enumerate(("a", "a@west", "b@west", "c@east"), 1)]
    assert producer.produce_all(four, Reports()) == 4
    assert (sent(producer, ""), sent(producer, "west")) == (["a", "c"], ["a", "b"])


def test_a_row_of_a_cluster_that_is_gone_from_the_file_is_refused_and_sent_nowhere(
    producer: routed.RoutedProducer,
) -> None:
    reports = Reports()
    assert producer.produce_all([replace(row(7), topic="a@north"), replace(row(8), topic="a")], reports) == 2
    single: list[str] = []
    assert producer.produce(replace(row(9), topic="a@north"), lambda outcome, text: single.append(outcome))
    producer.poll()
    assert single == ["rejected"]
    assert reports.refusals == [(7, "rejected", "kafka has no cluster north")]
    assert (sent(producer, ""), sent(producer, "west")) == (["a"], [])
    with pytest.raises(TopicMissing, match="kafka has no cluster north"):
        producer.partitions("a@north")


def test_a_receiver_in_another_app_knows_the_topic_by_its_plain_name() -> None:
    shard = shard_name(Partition("app", "agent", "in@east", 0), "out@west", "t")
    assert shard == b"app/agent/in@east/0>out#t"
    for topic in ("out", "out@west", "out@here"):
        assert ReceivedShards(topic)._named(shard) == shard.decode()
