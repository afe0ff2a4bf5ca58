"""The other side of the comparisons: Faust's app does the job on a real Kafka, the topology of Kafka Streams in its
test driver; other Java compiles, and other Python parses."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.load import create
from tests.conftest import missing
from tests.servers import Unavailable, jars
from tests.waiting import wait_until

PROJECT = Path(__file__).resolve().parents[3]
PAGES = PROJECT / "docs" / "compare"
JAVA = Path(__file__).with_name("java")


def code(page: str, language: str) -> str:
    (text,) = codes(page, language)
    return text


def codes(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("page", ["faust", "quix", "celery", "inngest", "hatchet"])
def test_its_python_parses(page: str) -> None:
    for text in codes(page, "python"):
        ast.parse(text)


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


def compiled(page: str, libraries: Path, folder: Path, *more: Path) -> list[str]:
    """The command that runs a class of the page, or of the files beside it."""
    java = shutil.which("java")
    if java is None:
        missing(Unavailable(f"{page} needs java on the PATH: install a Java 17 runtime"))
    text = code(page, "java")
    source = folder / text.split()[1]  # its first line is `// FILE`
    source.write_text(text.replace("persistentKeyValueStore", "inMemoryKeyValueStore"), encoding="utf-8")
    path = os.pathsep.join(map(str, [folder, *libraries.glob("*.jar")]))
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main"]  # a runtime has the module, and no javac
    files = [str(source), *map(str, more)]
    done = subprocess.run(
        [*compiler, "-cp", path, "-d", str(folder), *files], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [java, "-cp", path]


def fetched(fetch: Callable[[], Path]) -> Path:
    try:
        return fetch()
    except Unavailable as error:
        missing(error)
        raise


def test_the_topology_of_kafka_streams_does_the_job(tmp_path: Path) -> None:
    libraries = fetched(lambda: jars.kafka_streams("4.4.0"))
    java = compiled("kafka-streams", libraries, tmp_path, JAVA / "Orders.java")
    done = subprocess.run([*java, "Orders"], capture_output=True, text=True, timeout=60)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"count": 100, "spent": 200.0, "reason": "count"},
        {"count": 1, "spent": 2.0, "reason": "timeout"},
    ], done.stderr


@pytest.mark.parametrize("page", ["flink", "parallel-consumer"])
def test_its_java_compiles(page: str, tmp_path: Path) -> None:
    libraries = fetched(lambda: jars.from_pom("the compared products", "compared-1", JAVA / "pom.xml"))
    compiled(page, libraries, tmp_path)
