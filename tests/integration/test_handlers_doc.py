"""docs/handlers.md does what it says: its file is run with each of its modules."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer

from sluicegate.connectors import open_store
from sluicegate.streams.handlers.functions import ARGUMENTS
from tests.bench.load import create
from tests.bench.results import reader, written
from tests.waiting import wait_until

DOCUMENT = (Path(__file__).parents[2] / "docs" / "handlers.md").read_text(encoding="utf-8")
MESSAGES = 100


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.S)


def modules() -> dict[str, str]:
    """Name -> text; the first line of a block says its file."""
    return {re.match(r"# (\w+)\.py\n", text)[1]: text for text in blocks("python")}  # type: ignore[index]


def named(text: str, ns: str) -> str:
    """The same under names of this test's own."""
    text = re.sub(r"(app: |from: |topic: |dead_letters: )(\w)", rf"\g<1>{ns}-\g<2>", text)
    return text.replace("into orders", f"into {ns}_orders")


def written_modules(folder: Path, rename: Callable[[str], str]) -> None:
    for name, text in modules().items():
        (folder / f"{name}.py").write_text(rename(text), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, kafka: str, postgres_url: str, ns: str) -> Path:
    """With the document's file and modules; its topics and tables are there."""
    create(kafka, *(f"{ns}-{name}" for name in ("orders", "invoices", "shop.dead")))
    store = open_store(postgres_url)
    store.migrate()
    store.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"create table {ns}_orders (id text primary key, amount integer)")
    written_modules(tmp_path, lambda text: named(text, ns))
    return tmp_path


@pytest.mark.parametrize("module", modules())
def test_its_file_enters_each_order_and_sends_each_invoice(
    module: str, folder: Path, kafka: str, postgres_url: str, ns: str
) -> None:
    (text,) = blocks("yaml")
    file = folder / "shop.yaml"
    file.write_text(
        named(text, ns).replace("handler: shop:", f"handler: {module}:") + "http: {port: 0}\n", encoding="utf-8"
    )
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for number in range(MESSAGES):
        producer.produce(f"{ns}-orders", b'{"id":"%d","amount":%d}' % (number, number), key=str(number))
    assert producer.flush(20) == 0
    environ = {**os.environ, "KAFKA_BOOTSTRAP_SERVERS": kafka, "STORE_URL": postgres_url}
    command = [str(Path(sys.executable).with_name("sluicegate")), "run", str(file)]
    consumer = reader(kafka, f"{ns}-invoices")
    with (folder / "run.log").open("wb") as log:
        worker = subprocess.Popen(command, env=environ, stderr=log)
        try:
            wait_until(lambda: written(consumer, f"{ns}-invoices") >= MESSAGES, 60, "the invoices", pause=0.2)
        finally:
            worker.send_signal(signal.SIGTERM)
            code = worker.wait(40)
            consumer.close()
    assert code == 0
    with psycopg.connect(postgres_url) as connection:
        [row] = connection.execute(f"select count(*), sum(amount) from {ns}_orders").fetchall()
    assert tuple(row) == (MESSAGES, sum(range(MESSAGES)))


@pytest.mark.parametrize("options", [(), ("--crash",)])
def test_the_tests_in_its_file_pass_without_a_server(options: tuple[str, ...], tmp_path: Path) -> None:
    written_modules(tmp_path, lambda text: text)
    [file], [sql] = blocks("yaml"), blocks("sql")
    (tmp_path / "shop.yaml").write_text(file, encoding="utf-8")
    (tmp_path / "orders.sql").write_text(sql, encoding="utf-8")
    environ = {
        name: value for name, value in os.environ.items() if name not in ("KAFKA_BOOTSTRAP_SERVERS", "STORE_URL")
    }
    command = [str(Path(sys.executable).with_name("sluicegate")), "test", "shop.yaml", *options]
    result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout.splitlines()[-1]) == (0, "2 of 2 tests passed"), (
        result.stdout + result.stderr
    )


def test_every_argument_is_in_its_table() -> None:
    (table,) = re.findall(r"\| name \| value \|\n(.*?)\n\n", DOCUMENT, re.S)
    for name in ARGUMENTS:
        assert re.search(rf"^\| [^|]*`{name}[`(]", table, re.M), name
