"""Rebalances on a real broker: members that come and go, and a broker that is killed."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.streams.errors import InstanceFenced, SystemNotReady
from tests.servers.kafka import Kafka
from tests.unit.kafka.clients import COOPERATIVE, EAGER, PROTOCOLS, fill, joined, numbers
from tests.waiting import wait_until

MakeTopic = Callable[..., str]


def test_members_that_do_not_agree_on_how_to_rebalance_end_with_a_reason(
    kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    first = joined(kafka, ns, make_topic(ns), **EAGER)
    second = KafkaInput({"bootstrap.servers": kafka, **COOPERATIVE}, ns, [ns], "tester")
    with pytest.raises(SystemNotReady, match="INCONSISTENT_GROUP_PROTOCOL"):
        wait_until(lambda: second.poll(0.05), 20)
    first.close()
    second.close()


def test_of_two_members_with_one_instance_id_the_older_one_ends_with_a_reason(
    kafka: str, ns: str, make_topic: MakeTopic
) -> None:
    """Two deployments that were given the same `group.instance.id`: one of them must not go on as if it were alone."""
    same = {**COOPERATIVE, "group.instance.id": f"{ns}-1"}
    first = joined(kafka, ns, make_topic(ns), **same)
    second = KafkaInput({"bootstrap.servers": kafka, **same}, ns, [ns], "twin")
    with pytest.raises(InstanceFenced, match=r"same group\.instance\.id"):
        wait_until(lambda: second.poll(0.05) or first.poll(0.05), 40)
    first.close()
    second.close()


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "static"])
def test_a_member_that_closes_leaves_its_partitions_at_once(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    settings = dict(PROTOCOLS.get(protocol, COOPERATIVE))
    if protocol != "kip-848":
        settings["session.timeout.ms"] = 45_000
    if protocol == "static":
        settings["group.instance.id"] = "first"
    joined(kafka, ns, make_topic(ns, 2), 2, **settings).close()
    joined(kafka, ns, ns, 2, **settings | ({"group.instance.id": "second"} if protocol == "static" else {})).close()


class Member:
    """A consumer of a storm: it starts what it is given where the group is, and remembers what it must read next, and
    the leader epoch of what it read last: a broker that was killed begins a new one."""

    def __init__(self, consumer: KafkaInput, reached: dict[int, int]) -> None:
        self.consumer, self.reached = consumer, reached
        self.expected: dict[int, int] = {}
        self.epochs: dict[int, int] = {}

    def turn(self) -> None:
        first = self.consumer.poll(0.005)
        batch = [] if first is None else [first, *self.consumer.consume(20)]
        revoked, assigned = self.consumer.revoked(), self.consumer.assigned()
        for record in batch:
            if record.partition() in self.expected:
                assert record.offset() == self.expected[record.partition()]
                self.expected[record.partition()] += 1
                self.epochs[record.partition()] = record.leader_epoch()
        for _, partition in revoked:
            self.expected.pop(partition, None)
        for partition, offset in self.expected.items():
            self.reached[partition] = max(self.reached[partition], offset)
        for topic, partition in assigned:
            self.expected[partition] = self.reached[partition]
            self.consumer.start(topic, partition, self.reached[partition], self.epochs.get(partition, -1))
        assert self.consumer.failures() == []


@pytest.mark.parametrize(("protocol", "seed"), [("cooperative", 1), ("cooperative", 2), ("eager", 3), ("kip-848", 4)])
def test_in_a_storm_of_rebalances_every_started_partition_gives_its_records_in_order_and_none_stands_still(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str, seed: int
) -> None:
    partitions, records = 6, 4_000
    make_topic(ns, partitions)
    for partition in range(partitions):
        fill(kafka, ns, partition, numbers(0, records))
    random_, reached = random.Random(seed), dict.fromkeys(range(partitions), 0)
    settings: dict[str, Any] = {"bootstrap.servers": kafka, **PROTOCOLS[protocol]}
    members: list[Member] = []
    handovers = 0

    def turn() -> bool:
        nonlocal handovers
        changing = handovers < 12
        if not members or (changing and len(members) < 4 and random_.random() < 0.02):
            members.append(Member(KafkaInput(settings, ns, [ns], f"m{handovers}"), reached))
            handovers += 1
        elif changing and len(members) > 1 and random_.random() < 0.02:
            leaver = members.pop(random_.randrange(len(members)))
            leaver.consumer.close()
        elif members[0].expected and random_.random() < 0.05:
            partition = random_.choice(list(members[0].expected))
            members[0].consumer.start(ns, partition, members[0].expected[partition], 0)
        for member in members:
            member.turn()
        return all(offset == records for offset in reached.values())

    wait_until(turn, 60, "the end of all partitions", pause=0)
    assert handovers > 3
    for member in members:
        member.consumer.close()


@pytest.mark.timeout(120)
def test_reading_goes_on_where_it_was_when_the_broker_comes_back_from_kill_9(
    own_server: Any, ns: str, make_topic: MakeTopic
) -> None:
    server = own_server(Kafka)
    make_topic(ns, 1, server.url)
    fill(server.url, ns, 0, numbers(0, 100))
    reached = {0: 0}
    member = Member(KafkaInput({"bootstrap.servers": server.url, **COOPERATIVE}, ns, [ns], "m"), reached)

    def reaches(offset: int) -> bool:
        member.turn()
        return reached[0] == offset

    wait_until(lambda: reaches(100), 30, "the first records")
    server.kill9()
    wait_until(lambda: reaches(100), 5, "the same place")
    server.restart()
    fill(server.url, ns, 0, numbers(100, 200))
    wait_until(lambda: reaches(200), 60, "the other records")
    member.consumer.close()


@pytest.mark.parametrize("protocol", ["cooperative", "eager"])
def test_a_member_has_joined_once_the_group_gave_it_something_or_nothing(
    kafka: str, ns: str, make_topic: MakeTopic, protocol: str
) -> None:
    settings = {"bootstrap.servers": kafka, **PROTOCOLS[protocol]}
    first = KafkaInput(settings, ns, [make_topic(ns)], "first")
    assert not first.joined()
    wait_until(lambda: first.poll(0.05) or first.joined(), 30)
    second = KafkaInput(settings, ns, [ns], "second")
    assert not second.joined()
    wait_until(lambda: first.poll(0.05) or second.poll(0.05) or (first.joined() and second.joined()), 30)
    partitions = [*first.assigned(), *second.assigned()]
    assert set(partitions) == {(ns, 0)}
    first.close()
    second.close()


def test_a_member_whose_session_ended_waits_for_its_group_again(
    own_server: Any, ns: str, make_topic: MakeTopic
) -> None:
    server = own_server(Kafka)
    make_topic(ns, 1, server.url)
    member = joined(server.url, ns, ns)
    assert member.joined()
    server.kill9()
    wait_until(lambda: member.poll(0.05) or not member.joined(), 30)
    assert member.revoked() == [(ns, 0)]
    server.restart()
    wait_until(lambda: member.poll(0.05) or member.joined(), 60)
    assert member.assigned() == [(ns, 0)]
    member.close()
