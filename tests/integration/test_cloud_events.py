"""CloudEvents with the real command on a real broker: the official SDK for Python writes what is read, in both modes,
and reads what is written, while the worker is killed."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event, to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka import Producer

from sluicegate.schemas import SchemaOptions, codec
from sluicegate.streams.config.loading import load
from tests.integration.test_commands_live import sluicegate
from tests.integration.test_connect_headers import messages
from tests.waiting import wait_until

FILE = """\
app: {ns}
kafka: {{bootstrap.servers: "{kafka}", topic.metadata.refresh.interval.ms: 1000}}
store: sqlite:///state.db
http: false
dead_letters: {ns}-dead
agents:
  totals:
    from: {{topic: {ns}-orders, envelope: cloudevents}}
    {reads}
    where: type == "shop.order"
    key: data.by
    dedupe: {{id: id}}
    aggregate: {{count: 2, compute: {{total: {{sum: data.amount}}, ids: {{collect: id}}}}}}
    to:
      - topic: {ns}-binary
        envelope: {{cloudevents: binary, type: shop.total, source: /shop/totals}}
        format: {form}
        continue: true
      - topic: {ns}-structured
        envelope: {{cloudevents: structured, type: shop.total}}
        format: {form}
  chained:
    from: {{topic: {ns}-structured, envelope: cloudevents}}
    format: {form}
    key: data.key
    aggregate: {{count: 1, compute: {{sources: {{collect: source}}, total: {{sum: data.total}}}}}}
    to: {{topic: {ns}-chained}}
"""
ORDERS, CUSTOMERS = 200, 10
FIELDS = [{"name": "by", "type": "string"}, {"name": "amount", "type": "long"}]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}


@pytest.fixture(params=["json", "avro"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path, kafka: str, ns: str, form: str) -> str:
    path = tmp_path / "app.yaml"
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    reads = "format: json" if form == "json" else "format: avro\n    schema: order.avsc"
    path.write_text(FILE.format(ns=ns, kafka=kafka, form=form, reads=reads))
    sluicegate("topics", str(path), "--create", "--partitions", "1", "--json")
    return str(path)


def order(number: int, form: str, type: str = "shop.order") -> KafkaMessage:
    values = {"by": f"customer {number % CUSTOMERS}", "amount": number}
    data = values if form == "json" else codec("avro", SchemaOptions(json.dumps(ORDER))).encode(values)
    attributes = {"id": f"order-{number}", "source": "/shop", "type": type, "specversion": "1.0"}
    event = CloudEvent({**attributes, "datacontenttype": f"application/{form}", "subject": "ü"}, data)
    return to_binary_event(event) if number % 2 else to_structured_event(event)


def event(message: Any) -> Any:
    headers = {name: value for name, value in message.headers() if not name.startswith("sluicegate-")}
    return from_kafka_event(KafkaMessage(headers, message.key(), message.value()))


def decoded(file: str, form: str) -> Callable[[Any], Any]:
    """Reads the data of a result."""
    app = load(Path(file), {}).app
    assert app is not None
    avro = app.agents[0].outputs[0].schema
    return (lambda data: data) if form == "json" else codec("avro", avro).decode


def once(kafka: str, topic: str) -> list[Any]:
    """Each output once, by its id."""
    outbox_messages = {dict(message.headers())["sluicegate-id"]: message for message in messages(kafka, topic)}
    return [*outbox_messages.values()]


def test_the_sdk_writes_what_is_read_and_reads_what_is_written(
    running: Any, kafka: str, ns: str, file: str, form: str
) -> None:
    first = running()
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for number in range(ORDERS):
        for message in (order(number, form), order(number, form), order(number, form, "shop.other")):
            producer.produce(f"{ns}-orders", message.value, b"k", headers=[*message.headers.items()])
        if number == ORDERS // 2:
            assert producer.flush(30) == 0
            wait_until(lambda: messages(kafka, f"{ns}-binary"), 60, "the first results")
            first.signal(signal.SIGKILL)
    assert producer.flush(30) == 0
    producer.produce(f"{ns}-orders", b"{}", b"k", headers=[("ce_specversion", b"1.0"), ("ce_id", b"x")])
    assert producer.flush(30) == 0
    running()
    wanted = ORDERS // 2
    wait_until(lambda: len(once(kafka, f"{ns}-chained")) >= wanted, 90, "all results")
    results = {mode: [event(message) for message in once(kafka, f"{ns}-{mode}")] for mode in ("binary", "structured")}
    data = decoded(file, form)
    for mode, events in results.items():
        assert len(events) == wanted
        assert len({cloud_event.get_id() for cloud_event in events}) == wanted
        assert {cloud_event.get_type() for cloud_event in events} == {"shop.total"}
        source = "/shop/totals" if mode == "binary" else f"/{ns}/totals"
        assert {cloud_event.get_source() for cloud_event in events} == {source}
        assert sum(data(cloud_event.get_data())["total"] for cloud_event in events) == sum(range(ORDERS))
        ids = [id for cloud_event in events for id in data(cloud_event.get_data())["ids"]]
        assert sorted(ids) == sorted(f"order-{number}" for number in range(ORDERS))
        assert all(
            cloud_event.get_extension("partitionkey") == data(cloud_event.get_data())["key"] for cloud_event in events
        )
    for message in once(kafka, f"{ns}-binary"):
        assert dict(message.headers())["ce_id"] == dict(message.headers())["sluicegate-id"]
    chained = [json.loads(message.value()) for message in once(kafka, f"{ns}-chained")]
    assert sum(document["total"] for document in chained) == sum(range(ORDERS))
    assert {source for document in chained for source in document["sources"]} == {f"/{ns}/totals"}
    [letter] = sluicegate("dead", "ls", file, "--json")["dead"]
    assert (letter["reason"], letter["stage"]) == ("undecodable", "decode")
    assert letter["error"] == "is not a CloudEvent: the mandatory attribute source is missing or empty"
