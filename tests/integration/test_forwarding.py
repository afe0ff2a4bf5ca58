"""Agents that forward, on a real broker and a real store: their workers are killed on the way."""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer

from sluicegate.schemas import Avro, codec
from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

RECORDS = 6_000
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: STORE
accept_level: volatile
auto_migrate: true
dead_letters: NS-dead
http: {port: 0}
agents:
  payments:
    from: NS-in
    where: amount > 10
    to:
      - {topic: NS-audit, continue: true, where: has(currency), select: {number: n}}
      - {topic: NS-large, where: amount >= 30}
      - {topic: NS-rest, where: has(currency) || amount < 12}
  copies: {from: NS-in, delivery: transactional, to: {topic: NS-copies}}
  keyed: {from: NS-in, key: n, to: {topic: NS-keyed}}
  anew: {from: NS-in, to: {topic: NS-anew, format: avro, schema: payment.avsc}}
"""
FIELDS = {"n": "long", "amount": "double", "currency": ["null", "string"]}
SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": field, "type": kind} for field, kind in FIELDS.items()],
}
SCHEMA["fields"][2]["default"] = None
TOPICS = ("audit", "large", "rest", "copies", "keyed", "anew", "dead")
Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Key, value and headers of a record."""


def record(number: int) -> Content:
    """Every 19th is not JSON, every 23rd is a tombstone, every 17th has no currency."""
    value: bytes | None = b'{ "n":%d, "amount": %d.0,"currency": "EUR" }' % (number, number % 53)
    if number % 17 == 0:
        value = b'{"n": %d, "amount": %d}' % (number, number % 53)
    if number % 19 == 0:
        value = b"\xff%d" % number
    if number % 23 == 0:
        value = None
    return b"k%d" % (number % 7), value, (("number", b"%d" % number), ("twice", b"\xfe"), ("twice", None))


def oracle() -> dict[str, Counter[Content]]:
    """What each topic gets, and the records that are dead letters."""
    contents: dict[str, Counter[Content]] = {topic: Counter() for topic in TOPICS}
    encode = codec("avro", Avro(json.dumps(SCHEMA))).encode
    for number in range(RECORDS):
        key, value, headers = content = record(number)
        amount, currency = number % 53, number % 17 != 0
        contents["copies"][content] += 1
        if value is None or value.startswith(b"\xff"):
            contents["dead"][content] += 2  # of payments and of keyed
            contents["anew" if value is None else "dead"][content] += 1
            continue
        document = {"n": number, "amount": float(amount), **({"currency": "EUR"} if currency else {})}
        contents["anew"][key, encode(document), headers] += 1
        contents["keyed"][b"%d" % number, value, headers] += 1
        if amount > 10:
            if currency:
                contents["audit"][key, b'{"number":%d}' % number, headers] += 1
            contents["large" if amount >= 30 else "rest" if currency or amount < 12 else "dead"][content] += 1
    return contents


def content(message: Message) -> Content:
    headers = tuple((name, value) for name, value in message.headers() if not name.startswith("sluicegate-"))
    return message.key(), message.value(), headers


def once(messages: Iterable[Message]) -> list[Message]:
    """Messages by their id: exact copies after the kill count once."""
    return list({dict(message.headers())["sluicegate-id"]: message for message in messages}.values())


def drawn(consumers: dict[str, Consumer], into: dict[str, list[Message]]) -> dict[str, int]:
    """The number of different messages in each topic, after another look."""
    for topic, consumer in consumers.items():
        into[topic] += consumer.consume(1_000, 0.1)
    return {topic: len(once(messages)) for topic, messages in into.items()}


def fed(producer: Producer, topic: str, first: int, end: int) -> None:
    for number in range(first, end):
        key, value, headers = record(number)
        producer.produce(topic, value, key, headers=list(headers))
    assert producer.flush(20) == 0


@pytest.mark.parametrize("store", ["sqlite", "redis_url"])
def test_each_record_is_forwarded_once_when_the_workers_are_killed(
    tmp_path: Path, kafka: str, ns: str, store: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}" if store == "sqlite" else request.getfixturevalue(store)
    create(kafka, *(f"{ns}-{name}" for name in ("in", *TOPICS)))
    path = tmp_path / "pay.yaml"
    (tmp_path / "payment.avsc").write_text(json.dumps(SCHEMA))
    path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url))
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    wanted = oracle()
    total = {topic: contents.total() for topic, contents in wanted.items()}
    consumers = {topic: reader(kafka, f"{ns}-{topic}") for topic in TOPICS}
    outbox_messages: dict[str, list[Message]] = {topic: [] for topic in TOPICS}
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(path))
    try:
        for turn in range(3):
            drawn(consumers, outbox_messages)
            fed(producer, f"{ns}-in", turn * RECORDS // 3, (turn + 1) * RECORDS // 3)
            for topic in ("copies", "audit"):
                outbox_messages[topic] += wait_until(
                    lambda name=topic: consumers[name].consume(1, 0.2), 60, "new outputs"
                )
            for pid in run.pids(2 * turn + 2)[-2:] if turn < 2 else ():
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: drawn(consumers, outbox_messages) == total, 90, f"all outputs: {total}")
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
        for _ in range(5):  # copies that came after the first of each output
            drawn(consumers, outbox_messages)
    finally:
        run.close()
        for consumer in consumers.values():
            consumer.close()
    assert {topic: Counter(map(content, once(messages))) for topic, messages in outbox_messages.items()} == wanted
    assert len(outbox_messages["copies"]) == RECORDS, "a reader of committed records reads each once"
    reasons = {dict(message.headers())["sluicegate-dead-reason"] for message in outbox_messages["dead"]}
    assert reasons == {b"null-value", b"undecodable", b"unrouted"}
