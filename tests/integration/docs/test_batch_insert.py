"""The file of docs/recipes/batch-insert.md on a real PostgreSQL: its worker is killed with -9 among its commits, and
each record is one row."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Producer

from sluicegate.connectors import open_store
from tests.bench.load import create
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recipes" / "batch-insert.md"
COMMAND = Path(sys.executable).with_name("sluicegate")
MESSAGES, KILLS = 5_000, 3


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


@pytest.fixture
def file(tmp_path: Path, kafka: str, postgres_url: str, ns: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """The recipe under names of this test's own: sink.yaml and sink.py, the first blocks of their kind."""
    text, module = blocks("yaml")[0], blocks("python")[0]
    text = re.sub(r"(app: |from: |dead_letters: )(\w)", rf"\g<1>{ns}-\g<2>", text.partition("\ntests:")[0])
    (tmp_path / "sink.yaml").write_text(f"{text}\nhttp: {{port: 0}}\n", encoding="utf-8")
    (tmp_path / "sink.py").write_text(module.replace("into readings", f"into {ns}_readings"), encoding="utf-8")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka)
    monkeypatch.setenv("STORE_URL", postgres_url)
    create(kafka, f"{ns}-readings", f"{ns}-sink.dead")
    store = open_store(postgres_url)
    store.migrate()
    store.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"create table {ns}_readings (id text, celsius real)")  # without a key that refuses a copy
    return tmp_path / "sink.yaml", f"{ns}_readings"


def test_each_record_is_one_row_although_the_worker_is_killed(
    file: tuple[Path, str], kafka: str, postgres_url: str, ns: str
) -> None:
    path, table = file
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def one(what: str) -> int:
            [row] = connection.execute(f"select {what} from {table}").fetchall()
            return int(row[0])

        run = Run(str(COMMAND), "run", str(path))
        try:
            for kill in range(KILLS + 1):
                for number in range(MESSAGES * kill, MESSAGES * (kill + 1)):
                    producer.produce(f"{ns}-readings", b'{"id":"%d","celsius":20}' % number, key=str(number % 50))
                assert producer.flush(30) == 0
                if kill < KILLS:  # while it is among them
                    wait_until(lambda least=MESSAGES * kill: one("count(*)") > least, 60, "a row", pause=0.01)
                    os.kill(run.pids(kill + 1)[-1], signal.SIGKILL)
            wait_until(lambda: one("count(distinct id)") == MESSAGES * (KILLS + 1), 90, "all rows", pause=0.2)
            run.signal(signal.SIGTERM)
            assert run.exit_code(60) == 0
        finally:
            run.close()
        assert one("count(*)") == MESSAGES * (KILLS + 1)
        assert one("count(distinct xmin::text)") < MESSAGES  # transactions: many rows in each
    command = [str(COMMAND), "dead", "ls", str(path), "--json"]
    dead = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (dead.returncode, json.loads(dead.stdout)["dead"]) == (0, []), dead.stdout + dead.stderr
