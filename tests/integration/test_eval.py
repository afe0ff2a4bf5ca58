"""`sluicegate eval --at` and `check --connect --sample` on a real broker, which holds the records."""

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from sluicegate.streams.cli import main
from tests.bench.load import create

FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA"}
store: sqlite:///state.db
accept_level: volatile
dead_letters: NS-dead
http: false
agents:
  sums:
    from: NS-orders
    where: amount > 10 && message.headers.kind == "sale"
    let: {total: amount * price}
    aggregate: {count: 5, compute: {spent: {sum: total}}}
    having: spent > 10
    to: {topic: NS-sums}
"""
CANARY = "canary-4711"


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def test_one_record_and_a_sample_are_read_from_kafka(tmp_path: Path, kafka: str, ns: str) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka))
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "sums", "dead")))
    topic, producer = f"{ns}-orders", Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    values: list[dict[str, Any]] = [
        {"amount": 20, "price": 2},
        {"amount": 5, "price": CANARY},
        {"amount": 30, "price": CANARY},
        {"price": 2},
    ]
    for value in values:
        producer.produce(topic, json.dumps(value), key="k", partition=0, headers={"kind": "sale"})
    assert producer.flush(20) == 0
    record = json.loads(invoke("eval", str(path), "sums", "--at", f"{topic}/0/0", "--json").stdout)["record"]
    assert record == {
        "clauses": [
            {"clause": "let.total", "answer": 40},
            {"clause": "where", "answer": True},
            {"clause": "key", "answer": "k"},
        ],
        "becomes": "taken",
    }
    gone = invoke("eval", str(path), "sums", "--at", f"{topic}/0/4")
    assert (gone.exit_code, "the partition holds offsets 0 to 3" in gone.stderr) == (2, True), gone.output
    done = invoke("check", str(path), "--connect", "--sample", "100", "--json")
    assert (done.exit_code, CANARY in done.output) == (0, False), done.output
    [sample] = json.loads(done.stdout)["samples"]
    where, total = sample["clauses"]
    assert sample["records"] == 4
    assert (where["true"], where["false"], where["problems"]) == (2, 1, {"amount is missing": 1})
    assert where["example"] == f"{topic}/0/3"
    assert (total["computed"], total["problems"]) == (1, {"* of integer and text": 1})
    assert total["example"] == f"{topic}/0/2"
    newest = json.loads(invoke("check", str(path), "--connect", "--sample", "1", "--json").stdout)["samples"]
    assert newest[0]["records"] == 1
