"""The other side of the comparisons: Faust's app does the job on a real Kafka, Java's compiles, and Python's parses."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.load import create
from tests.conftest import missing
from tests.servers import Unavailable, jars
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[3]
PAGES = PROJECT / "docs" / "compare"


def code(page: str, language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.S)
    return str(text)


@pytest.mark.parametrize("page", ["faust", "quix", "celery"])
def test_its_python_parses(page: str) -> None:
    ast.parse(code(page, "python"))


def test_the_app_of_faust_does_the_job(tmp_path: Path, kafka: str, ns: str) -> None:
    create(kafka, f"{ns}-orders", f"{ns}-baskets")
    text = code("faust", "python").replace("localhost:9092", kafka).replace(">= 30", ">= 3")
    text = re.sub(r'(App|topic|Table)\("', rf'\1("{ns}-', text)
    (tmp_path / "shop_faust.py").write_text(text, encoding="utf-8")
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for _ in range(101):
        producer.produce(f"{ns}-orders", b'{"amount": 2}', key="ann")
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": ns})
    consumer.assign([TopicPartition(f"{ns}-baskets", number, 0) for number in range(4)])
    found: list[object] = []

    def both() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(json.loads(message.value()))
        return len(found) == 2

    command = [sys.executable, "-m", "faust", "-A", "shop_faust", "worker", "--without-web"]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        try:
            wait_until(both, 90, "two baskets")
        finally:
            worker.kill()
            worker.wait()
            consumer.close()
    by_count = {"count": 100, "spent": 200.0, "reason": "count"}
    assert found == [by_count, {"count": 1, "spent": 2.0, "reason": "timeout"}]


def test_the_topology_of_kafka_streams_compiles(tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None:
        missing(Unavailable("Kafka Streams needs java on the PATH: install a Java 17 runtime"))
    (tmp_path / "Shop.java").write_text(code("kafka-streams", "java"), encoding="utf-8")
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main"]  # a runtime has the module, and no javac
    path = os.pathsep.join(map(str, Path(jars.kafka_streams()).glob("*.jar")))
    command = [*compiler, "-cp", path, "-d", str(tmp_path), "Shop.java"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
