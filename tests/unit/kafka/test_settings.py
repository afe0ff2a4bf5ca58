import logging

import pytest
from confluent_kafka import KafkaError

from sluicegate.connectors.kafka import facts, settings
from sluicegate.connectors.kafka.admin import existing, open_admin
from sluicegate.connectors.kafka.consumer import KafkaInput
from sluicegate.connectors.kafka.producer import open_producer
from sluicegate.streams.errors import ConfigurationError, SystemNotReady
from tests.unit.kafka.clients import PROTOCOLS, row
from tests.waiting import wait_until

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_client_gets_only_settings_that_it_knows(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    source = {
        **NOWHERE,
        **dict.fromkeys(settings.PRODUCER_ONLY & {"linger.ms", "batch.size", "batch.num.messages"}, 100),
    }
    source |= {"fetch.min.bytes": 1, **PROTOCOLS[protocol]}
    with caplog.at_level(logging.DEBUG):
        consumer, producer = KafkaInput(source, "g", ["t"], "m"), open_producer(source)
        wait_until(
            lambda: [consumer.poll(0.01), producer.poll(), len(caplog.records)][-1], what="a line of librdkafka's log"
        )
    assert [line for line in caplog.messages if "CONFWARN" in line] == []
    consumer.close()


def test_ours_win_over_the_users_and_the_users_over_defaults() -> None:
    user = {"auto.offset.reset": "earliest", "acks": 1, "compression.codec": "zstd", "fetch.wait.max.ms": 7}
    consumer = settings.consumer(user, "app.agent", "worker-1", print)
    producer = settings.producer(user, print)
    assert (consumer["auto.offset.reset"], consumer["group.id"], consumer["client.id"]) == (
        "error",
        "app.agent",
        "worker-1",
    )
    assert (consumer["fetch.wait.max.ms"], consumer["partition.assignment.strategy"]) == (7, "cooperative-sticky")
    assert (producer["acks"], producer["compression.type"], "compression.codec" in producer) == ("all", "zstd", False)
    assert {"fetch.wait.max.ms", "auto.offset.reset"} & producer.keys() == {"auto.offset.reset"}


def test_the_brokers_protocol_gets_no_strategy() -> None:
    assert settings.STRATEGY not in settings.consumer({"group.protocol": "consumer"}, "g", "m", print)


@pytest.mark.parametrize(
    "wrong", [{"no.such.setting": 1}, {"fetch.min.bytes": -7}, {"group.protocol": "consumer", "session.timeout.ms": 9}]
)
def test_settings_that_librdkafka_refuses_are_configuration_errors(wrong: dict[str, str | int]) -> None:
    with pytest.raises(ConfigurationError, match=next(reversed(wrong)).replace(".", r"\.")):
        KafkaInput({**NOWHERE, **wrong}, "g", ["t"], "m")


def test_a_broker_that_is_not_there_is_said_in_the_log_and_never_on_stderr(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    consumer, producer = KafkaInput(NOWHERE, "g", ["t"], "m"), open_producer(NOWHERE)
    producer.produce(row(1, "t"), lambda *_: None)
    with caplog.at_level(logging.WARNING):
        wait_until(
            lambda: (consumer.poll(0.01), producer.poll()) and len(caplog.records) > 1, what="librdkafka's warnings"
        )
    producer.close()
    consumer.close()
    assert {record.name for record in caplog.records} == {"sluicegate.connectors.kafka"}
    assert capfd.readouterr() == ("", "")


def test_asking_a_broker_that_is_not_there_is_bounded_and_says_what_was_asked() -> None:
    with pytest.raises(SystemNotReady, match=r"Kafka: describing topic t failed: .*\(_TIMED_OUT\)"):
        existing(NOWHERE, ["t"], 0.5)


def test_the_facts_of_a_broker_that_is_not_there_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = KafkaInput(NOWHERE, "g", ["t"], "m")
    monkeypatch.setattr("sluicegate.connectors.kafka.facts.TIMEOUT", 0.2)
    inner, admin = consumer._consumer, open_admin(NOWHERE)
    for ask in (
        lambda: facts.span(admin, "t", 0),
        lambda: facts.committed(inner, "t", 0),
        lambda: facts.offset_at(admin, "t", 0, 0.0),
    ):
        with pytest.raises(SystemNotReady, match="t/0"):
            ask()
    consumer.close()


def test_the_same_complaint_is_logged_twice_a_minute_at_most(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    complaints = settings.Complaints(lambda: now[0])
    down, slow = KafkaError(KafkaError._TRANSPORT), KafkaError(KafkaError._TIMED_OUT)
    for second in range(61):
        now[0] = float(second)
        complaints.say(down, f"down at {second}")
    complaints.say(slow, "slow")
    assert caplog.messages == ["down at 0", "down at 30", "down at 60", "slow"]


@pytest.mark.parametrize(
    ("user", "interval"),
    [
        ({}, 1000),
        ({"session.timeout.ms": 45_000}, 1000),
        ({"session.timeout.ms": 1500}, 500),
        ({"session.timeout.ms": 2}, 1),
        ({"heartbeat.interval.ms": 3000}, 3000),
        ({"group.protocol": "consumer"}, None),
    ],
    ids=str,
)
def test_a_member_hears_of_a_rebalance_within_a_second(user: dict[str, object], interval: int | None) -> None:
    assert settings.consumer({**NOWHERE, **user}, "g", "m", print).get("heartbeat.interval.ms") == interval
