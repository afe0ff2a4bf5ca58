"""docs/debezium.md on real stores: its handler writes one row of the outbox event router for each result, while the
worker is killed."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Producer
from sqlalchemy import Engine, create_engine, text

from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes
from tests.integration.supervised.run import Run
from tests.integration.test_commands_live import SLUICEGATE, sluicegate
from tests.integration.test_lookups import DRIVERS
from tests.waiting import wait_until

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "debezium.md").read_text(encoding="utf-8")
RECORDS = 4000
TYPES = {"postgres_url": ("uuid", "jsonb"), "mariadb_url": ("varchar(36)", "json")}


def block(language: str) -> str:
    [match] = re.findall(rf"```{language}\n(?!agents:)(.*?)```", DOCUMENT, re.DOTALL)
    return str(match)


def test_its_file_passes_its_own_test_with_a_death_at_every_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, language in (("shop.yaml", "yaml"), ("router.sql", "sql"), ("router.py", "python")):
        (tmp_path / name).write_text(block(language), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "router", raising=False)
    file = loaded(tmp_path / "shop.yaml")
    assert file.app is not None, file.problems
    verdict = play_with_crashes(file.app, file.cases[0], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


@pytest.fixture(params=["postgres_url", "mariadb_url"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str) -> Iterator[Engine]:
    """The table without its primary key, so that a row that is written twice is seen. The file is in `tmp_path`."""
    url = request.getfixturevalue(request.param)
    id_type, payload_type = TYPES[request.param]
    table = f"{ns.replace('-', '_')}_outboxevent"
    sql = block("sql").replace("outboxevent", table).replace("varchar(36) primary key", id_type)
    (tmp_path / "router.py").write_text(block("python").replace("outboxevent", table))
    file = block("yaml").partition("tests:")[0].replace("app: shop", f"app: {ns}\nauto_migrate: true\nhttp: false")
    file = file.replace("localhost:9092", kafka).replace("postgresql://shop@localhost/shop", url)
    file = file.replace("from: orders", f"from: {ns}-orders").replace("shop.dead", f"{ns}-dead")
    (tmp_path / "app.yaml").write_text(file + "accept_level: volatile\nallow_plaintext: true\n")
    made = create_engine(DRIVERS[url.partition(":")[0]] + url[url.index(":") :])
    with made.begin() as connection:
        connection.execute(text(sql.replace("payload text", f"payload {payload_type}")))
    yield made
    with made.begin() as connection:
        connection.execute(text(f"drop table {table}"))
    made.dispose()


def test_each_result_is_one_row_when_the_worker_is_killed(
    engine: Engine, tmp_path: Path, kafka: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    file, table = str(tmp_path / "app.yaml"), f"{ns.replace('-', '_')}_outboxevent"

    def rows() -> list[tuple[str, ...]]:
        with engine.connect() as connection:
            outcome = connection.execute(text(f"select id, aggregatetype, aggregateid, type, payload from {table}"))
            return [tuple(row) for row in outcome]

    sluicegate("topics", file, "--create", "--partitions", "1", "--json")
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    runs: list[Run] = []
    try:
        for start in range(0, RECORDS, RECORDS // 4):
            runs.append(Run(str(SLUICEGATE), "run", file))
            [pid] = runs[-1].pids(1)
            for number in range(start, start + RECORDS // 4):
                producer.produce(f"{ns}-orders", json.dumps({"amount": number}).encode(), b"k%d" % (number % 2))
            assert producer.flush(30) == 0
            wanted = RECORDS // 2 if start == RECORDS // 4 * 3 else len(rows()) + 1
            wait_until(lambda wanted=wanted: len(rows()) >= wanted, 60, f"{wanted} rows")
            if wanted < RECORDS // 2:
                os.kill(pid, signal.SIGKILL)
                runs[-1].close()
    finally:
        for run in runs:
            run.close()
            print("\n".join(map(str, run.lines[-20:])), *run.noise[-20:])
    table_rows = rows()
    assert len(table_rows) == RECORDS // 2
    assert len({str(UUID(str(id))) for id, *_ in table_rows}) == RECORDS // 2
    assert {(kind, type) for _, kind, _, type, _ in table_rows} == {("basket", "BasketFilled")}
    values = [table_row if isinstance(table_row, dict) else json.loads(table_row) for *_, table_row in table_rows]
    assert sum(value["total"] for value in values) == sum(range(RECORDS))
    assert [value["key"] for value in values] == [key for _, _, key, _, _ in table_rows]
