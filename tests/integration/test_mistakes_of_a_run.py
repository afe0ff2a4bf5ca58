"""Mistakes that show when systems are asked or records come: one screen, the cause, the cure, the right exit code."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.supervised.run import Run
from tests.integration.test_twenty_mistakes import one_screen
from tests.waiting import wait_until

FILE = """\
app: shop
kafka: {bootstrap.servers: embedded, session.timeout.ms: 6000}
store: sqlite:///state.db
dead_letters: shop.dead
http: {port: 0}
agents:
  baskets:
    from: clicks
    start: earliest
    aggregate: {count: 2, timeout: 1h, compute: {spent: {sum: amount}}}
"""
LOOKUP = "    lookup: {customer: {table: customers, column: id, key: key, fields: [name]}}\n"
TO = "    to: {topic: baskets}\n"
HANDLER = "    handler: hands:store\n    retry: {attempts: 1}\n"
HANDS = """\
def store(batch):
    raise ValueError(f"insert into baskets: column spent must be not null, got {batch.value['spent']}")
"""
AVRO = """\
app: shop
kafka: {bootstrap.servers: embedded}
store: memory://
accept_level: volatile
dead_letters: shop.dead
schema_registry: {url: "URL"}
agents:
  orders: {from: orders, format: avro, framing: confluent, schema: "orders-value:1", aggregate: {count: 1}, to: baskets}
"""
SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
REFERENCE = {"name": "shop.Money", "subject": "money", "version": 1}
ANSWERS: dict[str, tuple[int, dict[str, Any]]] = {
    "/subjects/orders-value/versions/1": (
        200,
        {"subject": "orders-value", "version": 1, "id": 1, "schema": '"shop.Money"', "references": [REFERENCE]},
    ),
    "/subjects/money/versions/1": (404, {"error_code": 40402, "message": "Version 1 not found."}),
}


class Registry(BaseHTTPRequestHandler):
    """A registry that lost a schema which another one refers to."""

    def do_GET(self) -> None:
        code, document = ANSWERS.get(self.path.partition("?")[0], (200, []))
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    made: list[Run] = []
    yield made
    for run in made:
        run.close()


def command(folder: Path, *words: str) -> tuple[int, str]:
    """What the command says after its description of the file."""
    done = subprocess.run([SLUICEGATE, *words], capture_output=True, text=True, cwd=folder, timeout=120, check=False)
    return done.returncode, done.stderr


def fed(folder: Path, runs: list[Run], records: int) -> Run:
    run = Run(SLUICEGATE, "run", str(folder / "shop.yaml"))
    runs.append(run)
    bootstrap = run.wait("broker.embedded", timeout=60)[0]["bootstrap"]
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for _ in range(records):
        producer.produce("clicks", b'{"amount": 41}', key="ann")
    assert producer.flush(20) == 0
    return run


def stopped(run: Run) -> None:
    run.signal(signal.SIGTERM)
    assert run.exit_code(60) == 0


def test_a_table_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(FILE + LOOKUP + TO)
    assert command(tmp_path, "migrate", "shop.yaml")[0] == 0
    code, text = command(tmp_path, "check", "shop.yaml", "--connect")
    assert code == 3
    assert text.count("no such table") == 1
    assert "lookup-failed: customer (table customers): no such table: customers; correct the lookup, make the" in text
    one_screen(text)


def test_an_agent_that_was_renamed_while_its_groups_are_open(tmp_path: Path, runs: list[Run]) -> None:
    (tmp_path / "shop.yaml").write_text(FILE + TO)
    run = fed(tmp_path, runs, 1)
    groups = [SLUICEGATE, "groups", "ls", str(tmp_path / "shop.yaml"), "baskets", "--json"]
    wait_until(lambda: '"ann"' in subprocess.run(groups, capture_output=True, text=True).stdout, 60, "the group")
    stopped(run)
    (tmp_path / "carts.yaml").write_text((FILE + TO).replace("  baskets:", "  carts:"))
    code, text = command(tmp_path, "run", "carts.yaml")
    assert code == 2
    assert (
        "agent baskets is not in this file, and no worker fires or sends what the store holds of it: 1 open group"
        in text
    )
    assert "run the file that has it until they are gone, or add --leave baskets" in text
    one_screen(text)
    code, text = command(tmp_path, "plan", "carts.yaml")
    assert code == 4


def test_an_error_of_a_handler_names_column_and_table_and_hides_the_value(tmp_path: Path, runs: list[Run]) -> None:
    (tmp_path / "shop.yaml").write_text(FILE + HANDLER)
    (tmp_path / "hands.py").write_text(HANDS)
    run = fed(tmp_path, runs, 2)
    [failed] = run.wait("handler.failed", timeout=60)
    stopped(run)
    assert failed["error"] == "ValueError: insert into baskets: column spent must be not null, got <value>"
    assert failed["raised_at"] == "hands.py:2 in store"
    one_screen(json.dumps(failed))


def test_a_schema_whose_reference_is_gone(tmp_path: Path, registry: str) -> None:
    (tmp_path / "shop.yaml").write_text(AVRO.replace("URL", registry))
    code, text = command(tmp_path, "check", "shop.yaml", "--connect")
    assert code == 3
    assert "schema orders-value:1 refers to version 1 of the subject money, which the schema registry" in text
    assert "or register the missing schema" in text
    one_screen(text)
