"""A real registry (Apicurio) that is killed under load, and a worker that is killed while it is down, in each format,
with confluent-kafka's own serializers as the producers: each record gives one result, and there is no dead letter."""

import json
import threading
from collections.abc import Callable
from signal import SIGKILL
from typing import Any

import pytest
from confluent_kafka import Message
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

from tests.integration.supervised.run import Run
from tests.integration.test_registry_formats import (
    AVRO,
    DIALECT,
    JSON_ORDER,
    NEWER,
    NEWER_AVRO,
    ORDER,
    PARTS,
    Scene,
    running,
    scene,
)
from tests.unit.schemas.protos import kind
from tests.waiting import wait_until

__all__ = ["running", "scene"]
PLAIN = {"use.deprecated.format": False}
NEWER_JSON = {**JSON_ORDER, "$schema": DIALECT, "properties": {**JSON_ORDER["properties"], "by": {"type": "string"}}}
Write = Callable[[float], Any]


def writers(here: Scene, form: str) -> tuple[Write, Write]:
    """Functions that write an order by the first schema, and by a newer one. Both are registered now."""
    other = {"subject.name.strategy": lambda *_: f"{here.ns}-newer"}
    if form == "protobuf":
        order, newer = (kind("shop.Order", text, **PARTS) for text in (ORDER, NEWER))
        old: Any = ProtobufSerializer(order, here.client, PLAIN)
        new: Any = ProtobufSerializer(newer, here.client, {**PLAIN, **other})
        made = lambda amount: order(amount=amount), lambda amount: newer(amount=amount, by="ann")
    else:
        made = lambda amount: {"amount": amount}, lambda amount: {"amount": amount, "by": "ann"}
        if form == "avro":
            old = AvroSerializer(here.client, json.dumps(AVRO))
            new = AvroSerializer(here.client, json.dumps(NEWER_AVRO), conf=other)
        else:
            old = JSONSerializer(json.dumps(JSON_ORDER), here.client)
            new = JSONSerializer(json.dumps(NEWER_JSON), here.client, conf=other)
    serializers = lambda amount: old(made[0](amount), here.at), lambda amount: new(made[1](amount), here.at)
    for serializer in serializers:
        serializer(0.0)
    return serializers


def totals(here: Scene, form: str) -> list[float]:
    """Of the results, read by confluent-kafka; a copy of one, which a killed worker may leave, has the same id."""
    distinct: dict[bytes, Message] = {
        dict(message.headers())["sluicegate-id"]: message for message in here.found["amounts"]
    }
    if form == "protobuf":
        read: Any = here.reads_results()
        return sorted(read(message.value(), here.out).total for message in distinct.values())
    read = (
        AvroDeserializer(here.client) if form == "avro" else JSONDeserializer(None, schema_registry_client=here.client)
    )
    return sorted(read(message.value(), here.out)["total"] for message in distinct.values())


class Load:
    """Sends records by a known schema all the time."""

    def __init__(self, here: Scene, write: Write) -> None:
        self._here, self._write, self.sent = here, write, 0

    def __enter__(self) -> "Load":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def one(self, write: Write | None = None) -> None:
        self._here.send((write or self._write)(float(self.sent)))
        self.sent += 1

    def _go(self) -> None:
        while not self._stop.wait(0.02):
            self.one()


def came(here: Scene) -> int:
    here.came("amounts")
    return len({dict(message.headers())["sluicegate-id"] for message in here.found["amounts"]})


@pytest.fixture(params=["avro", "protobuf", "json-schema"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_registry_and_a_worker_that_are_killed_under_load_cost_no_record(
    form: str, scene: Callable[[str], Scene], running: Callable[[Scene], Run]
) -> None:
    here = scene(form)
    known, new = writers(here, form)
    load = Load(here, known)
    load.one()
    run = running(here)
    wait_until(lambda: came(here) >= 1, 60, "the first result")
    with load:
        wait_until(lambda: came(here) >= 20, 60, "results under load")
        here.server.kill9()
        before = load.sent
        wait_until(lambda: came(here) > before, 60, "results while the registry is down")
        run.signal(SIGKILL)
        run.exit_code(20)
        run.close()
        again, before = running(here), load.sent
        wait_until(lambda: came(here) > before, 90, "results of a worker that started while the registry is down")
    for _ in range(5):
        load.one(new)
    again.wait("record.unresolved", 1, timeout=60)
    with load:
        here.server.restart()
        wait_until(lambda: came(here) >= load.sent - 20, 90, "results after the registry came back")
    wait_until(lambda: came(here) >= load.sent, 90, "the results")
    assert totals(here, form) == [float(number) for number in range(load.sent)]
    assert here.came("dead") == 0
