"""Avro in, Avro out, over a real broker and the product's own `run`; written and read by the avro package, not by our
codec."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import avro.io
import avro.schema
import pytest
from confluent_kafka import Consumer, Message, Producer

from tests.bench.load import create
from tests.bench.results import reader
from tests.waiting import wait_until

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "note", "type": ["null", "string"]},
        ],
    }
)
FILE = """
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
http: {port: 0}
agents:
  baskets:
    from: NS-orders
    format: avro
    schema: order.avsc
    framing: confluent
    schema_id: 7
    dead_letters: NS-dead
    aggregate: {count: 10, compute: {total: {sum: amount}, who: {first: customer}, rows: collect}}
    to: {topic: NS-baskets, format: avro, framing: confluent, schema_id: 9}
"""
KEYS, EACH = 6, 10
FRAME, BAD = b"\x00\x00\x00\x00\x07", b"\x00\x00\x00\x00\x07\x06ann\x00\x00"


def datum(schema: str, value: Any) -> bytes:
    stream = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(schema)).write(value, avro.io.BinaryEncoder(stream))
    return stream.getvalue()


def read(schema: str, value: bytes) -> Any:
    stream = io.BytesIO(value)
    answer = avro.io.DatumReader(avro.schema.parse(schema)).read(avro.io.BinaryDecoder(stream))
    assert stream.read() == b""
    return answer


def command(*words: str) -> list[str]:
    return [sys.executable, "-c", "from sluicegate.streams.cli import main; main()", *words]


def taken(consumer: Consumer, into: list[Message]) -> int:
    while (message := consumer.poll(0.1)) is not None:
        if message.error() is None:
            into.append(message)
    return len(into)


@pytest.fixture
def file(tmp_path: Path, kafka: str, ns: str) -> Path:
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "baskets", "dead")))
    (tmp_path / "order.avsc").write_text(ORDER, encoding="utf-8")
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka), encoding="utf-8")
    return path


def run_until(file: Path, done: Callable[[], bool]) -> int:
    """The exit code of a worker that runs until `done`, and is asked to stop then."""
    with (file.parent / "run.log").open("wb") as log:
        worker = subprocess.Popen(command("run", str(file)), env={**os.environ}, stderr=log)
        try:
            wait_until(done, 90, "the results and the letter", pause=0.2)
        finally:
            worker.send_signal(signal.SIGTERM)
            code = worker.wait(40)
    return code


def test_avro_comes_in_results_go_out_as_avro_and_what_does_not_decode_is_a_dead_letter(
    file: Path, kafka: str, ns: str
) -> None:
    shown = subprocess.run(
        command("check", str(file), "--json"), capture_output=True, text=True, timeout=60, check=True
    )
    result = json.dumps(json.loads(shown.stdout)["schemas"]["baskets"])
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for number in range(KEYS * EACH):
        if number == 25:
            producer.produce(f"{ns}-orders", BAD, key="k1")
        order = {"customer": f"c{number}", "amount": number / 4, "note": "x" if number % 2 else None}
        producer.produce(f"{ns}-orders", FRAME + datum(ORDER, order), key=f"k{number % KEYS}")
    assert producer.flush(20) == 0
    results, letters = [reader(kafka, f"{ns}-{name}") for name in ("baskets", "dead")]
    fired: list[Message] = []
    dead: list[Message] = []
    code = run_until(file, lambda: taken(results, fired) >= KEYS and taken(letters, dead) >= 1)
    taken(results, fired)
    taken(letters, dead)
    results.close()
    letters.close()
    assert code == 0
    [letter] = dead
    headers = dict(letter.headers())
    assert (letter.key(), letter.value()) == (b"k1", BAD)
    assert headers["sluicegate-dead-reason"] == b"undecodable"
    assert headers["sluicegate-dead-error"] == b"field amount ends too early"
    assert {message.value()[:5] for message in fired} == {b"\x00\x00\x00\x00\x09"}
    baskets = [read(result, message.value()[5:]) for message in fired]
    expected = [[number / 4 for number in range(key, KEYS * EACH, KEYS)] for key in range(KEYS)]
    outputs = sorted((basket["key"], basket["count"], basket["total"], basket["who"]) for basket in baskets)
    assert outputs == [(f"k{key}", EACH, sum(amounts), f"c{key}") for key, amounts in enumerate(expected)]
    rows = {basket["key"]: [json.loads(row)["amount"] for row in basket["rows"]] for basket in baskets}
    assert rows == {f"k{key}": amounts for key, amounts in enumerate(expected)}
