"""Agents that forward, in the test driver: what it reads of their outputs, and agents that read what they forward."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.schemas import Avro, codec
from sluicegate.streams.agent import Agent, App, Destination, Selected
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.files import loaded

PRICE = {"type": "record", "name": "Price", "fields": [{"name": "n", "type": "long"}]}
AVRO = Avro(json.dumps(PRICE))
FILE = """\
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
dead_letters: dead
agents:
  copies:
    from: in
    format: avro
    schema: price.avsc
    to: [{topic: large, where: n > 10}, {topic: small, select: {half: n / 2}}]
  sums:
    from: large
    format: avro
    aggregate: {count: 1, compute: {total: {sum: n}}}
    to: {topic: sums}
"""


def driver(to: Destination, **more: Any) -> TestDriver:
    return TestDriver(App("app", "memory://", (Agent("a", ("in",), None, to, "dead", **more),)))


@pytest.mark.parametrize(
    ("value", "read"), [(b"\xff\x00", b"\xff\x00"), (b'{"a": 1}', {"a": 1}), (b"text", b"text"), (None, None)]
)
@pytest.mark.parametrize("format", ["json", "raw"])
def test_a_forwarded_value_is_read_in_the_format_of_the_agent(value: bytes | None, read: Any, format: str) -> None:
    made = driver(Destination("out"), format=format)
    made.send("in", value, key="k", headers={"h": "x"})
    [output] = made.read("out")
    assert (output.key, output.value, output.raw, output.headers["h"]) == ("k", read, value, "x")


def test_a_forwarded_avro_value_is_decoded_and_one_of_select_is_json() -> None:
    made = driver(Destination("out"), format="avro", schema=AVRO)
    made.send("in", {"n": 7})
    [output] = made.read("out")
    assert (output.value, output.raw) == ({"n": 7}, codec("avro", AVRO).encode({"n": 7}))
    selected = driver(Destination("out", select=(Selected("n"),)), format="avro", schema=AVRO)
    selected.send("in", {"n": 7})
    assert [output.raw for output in selected.read("out")] == [b'{"n":7}']


@pytest.mark.parametrize("place", ["before-commit", "after-commit", "acked-not-recorded"])
@pytest.mark.parametrize("delivery", ["at-least-once", "transactional"])
def test_each_record_is_read_once_wherever_the_process_dies(place: Any, delivery: Any) -> None:
    made = driver(Destination("out"), delivery=delivery)
    for number in range(2):
        made.crash(place)
        made.send("in", {"n": number}, key="k")
    made.advance("20s")
    assert [output.value["n"] for output in made.read("out")] == [0, 1]
    assert made.read("dead") == []


def test_an_agent_of_the_file_reads_what_is_forwarded_with_the_schema_of_the_forwarder(tmp_path: Path) -> None:
    (tmp_path / "price.avsc").write_text(json.dumps(PRICE))
    (tmp_path / "app.yaml").write_text(FILE)
    file = loaded(tmp_path / "app.yaml")
    assert (file.problems, file.app is not None) == ((), True)
    made = TestDriver(file.app)
    for number in (7, 30):
        made.send("in", {"n": number}, key="k")
    assert [output.value["total"] for output in made.read("sums")] == [30]
    assert [output.value for output in made.read("small")] == [{"half": 3}]
