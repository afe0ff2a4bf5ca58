"""`sluicegate run` against real stores: what a person must change ends it at once, with 3; a running process waits for
the same."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.integration.supervised.run import Run
from tests.waiting import wait_until

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
FILE = """\
app: {ns}
kafka: {{bootstrap.servers: embedded}}
store: {store}
start_timeout: 60s
auto_migrate: true
http: {{port: 0}}
agents:
  pairs:
    from: in
    aggregate: {{count: 2}}
    to: {{topic: out}}
"""
AT_ONCE = 20.0
"""Seconds, of a start_timeout of 60: the machine may be busy."""


def changed(url: str, **parts: object) -> str:
    return make_url(url).set(**parts).render_as_string(hide_password=False)


def no_index(url: str) -> str:
    return f"{url.rsplit('/', 1)[0] if url.count('/') > 2 else url}/99999"


WRONG: dict[str, tuple[str, Callable[[str], str], str]] = {
    "role": (
        "postgres_url",
        lambda url: changed(url, username="nobody-at-all"),
        "create the role, or correct the store's URL",
    ),
    "database": (
        "postgres_url",
        lambda url: changed(url, database="nowhere"),
        "create the database, or correct the store's URL",
    ),
    "mariadb": (
        "mariadb_url",
        lambda url: changed(url, database="nowhere"),
        "create the database, or correct the store's URL",
    ),
    "user": ("mariadb_url", lambda url: changed(url, username="nobody", password="x"), "refuses user or password"),
    "redis": ("redis_url", no_index, "correct the number of the database in the store's URL"),
    "host": ("redis_url", lambda url: "redis://no-such-host.invalid/0\nallow_plaintext: true", "does not resolve"),
    "folder": ("", lambda url: "sqlite:///no/such/folder/state.db", "folder/state.db does not exist: create it"),
}


def written(folder: Path, ns: str, store: str) -> str:
    path = folder / "app.yaml"
    path.write_text(FILE.format(ns=ns, store=store))
    return str(path)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_person_must_change_ends_the_start_at_once(
    request: pytest.FixtureRequest, tmp_path: Path, ns: str, wrong: str
) -> None:
    fixture, wrongly, cure = WRONG[wrong]
    url = request.getfixturevalue(fixture) if fixture else ""
    began = time.monotonic()
    done = subprocess.run(
        [SLUICEGATE, "run", written(tmp_path, ns, wrongly(url))], capture_output=True, text=True, timeout=100
    )
    taken = time.monotonic() - began
    assert done.returncode == 3, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert cure in lines[-1]["error"]
    assert lines[-1]["event"] == "run.not_ready"
    assert taken < AT_ONCE


@pytest.fixture
def database(postgres_url: str, ns: str) -> Iterator[str]:
    """A database of the test's own."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"create database {ns}".encode())
        yield changed(postgres_url, database=ns)
        admin.execute(f"drop database if exists {ns} with (force)".encode())


def test_a_database_that_goes_away_later_is_an_outage(
    tmp_path: Path, ns: str, postgres_url: str, database: str
) -> None:
    run = Run(str(SLUICEGATE), "run", written(tmp_path, ns, database))
    try:
        wait_until(run.ready, 60, "readiness")
        workers = run.pids(1)
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(f"alter database {ns} allow_connections false".encode())
            admin.execute(b"select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (ns,))
            admin.execute(f"alter database {ns} rename to {ns}_away".encode())
            wait_until(lambda: not run.ready(), 60, "the outage")
            began = time.monotonic()
            wait_until(lambda: time.monotonic() - began > 3.0)
            assert run.process.poll() is None
            admin.execute(f"alter database {ns}_away rename to {ns}".encode())
            admin.execute(f"alter database {ns} allow_connections true".encode())
        wait_until(run.ready, 60, "readiness")
        assert workers[0] in run.pids(1)
    finally:
        run.close()
