"""A record whose writer's schema is not known yet waits, over a real broker and the product's own `run`, until the
schema's file comes."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM

import pytest
from confluent_kafka import Message, Producer

from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.integration.test_avro import datum, taken
from tests.waiting import wait_until

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "double"}]})
NEWER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "by", "type": "string"}, {"name": "amount", "type": "double"}],
    }
)
FILE = """
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
http: {port: 0}
agents:
  amounts:
    from: NS-orders
    format: avro
    schema: order.avsc
    schema_id: 7
    framing: confluent
    writer_schemas: ids
    on_error: {decode: wait}
    dead_letters: NS-dead
    aggregate: {count: 1, compute: {total: {sum: amount}}}
    to: {topic: NS-amounts}
"""


@pytest.fixture
def run(tmp_path: Path, kafka: str, ns: str) -> Iterator[Run]:
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "amounts", "dead")))
    (tmp_path / "order.avsc").write_text(ORDER)
    (tmp_path / "ids").mkdir()
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka))
    made = Run(sys.executable, "-c", "from sluicegate.streams.cli import main; main()", "run", str(path))
    yield made
    made.close()


def test_it_waits_with_what_follows_and_goes_on_when_the_file_is_there(
    run: Run, tmp_path: Path, kafka: str, ns: str
) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for number in range(40):
        schema, id, more = (NEWER, 8, {"by": "ann"}) if number >= 10 and number % 3 == 0 else (ORDER, 7, {})
        value = b"\x00" + id.to_bytes(4, "big") + datum(schema, {"amount": float(number), **more})
        producer.produce(f"{ns}-orders", value, key="k")
    assert producer.flush(20) == 0
    results, letters = [reader(kafka, f"{ns}-{name}") for name in ("amounts", "dead")]
    messages: list[Message] = []
    dead: list[Message] = []
    run.wait("record.unresolved", 2, timeout=60, offset=12)
    wait_until(lambda: taken(results, messages) >= 12, 60, "what lies before the record")
    code, text = run.get("/readyz")
    assert (code, "offset 12: undecodable" in text) == (503, True)
    assert "there is no 8.avsc in writer_schemas" in run.get("/status")[1]
    (tmp_path / "ids" / "8.avsc").write_text(NEWER)
    wait_until(lambda: taken(results, messages) >= 40, 100, "the rest")
    wait_until(run.ready, 30, "readiness")
    assert run.events("record.resolved", offset=12)
    run.signal(SIGTERM)
    assert run.exit_code(40) == 0
    assert taken(letters, dead) == 0
    taken(results, messages)
    assert [json.loads(message.value())["total"] for message in messages] == [float(number) for number in range(40)]
    results.close()
    letters.close()
