"""Who migrates: `run` where the file or the kind of store says so, else `sluicegate migrate`, which the refusal
names."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.connectors import open_store
from tests.servers import Mariadb, MongoDB, Postgres, Server, Valkey

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
NOBODY = "127.0.0.1:1"
REFUSAL = "the store's schema is not up to date"
REMEDY = "run `sluicegate migrate "
SERVERS = {"redis": Valkey, "postgresql": Postgres, "mariadb": Mariadb, "mongodb": MongoDB}


@pytest.fixture(params=["sqlite", *SERVERS])
def fresh(request: pytest.FixtureRequest, own_server: Callable[..., Server], tmp_path: Path) -> str:
    """The URL of a store that was never migrated."""
    if request.param == "sqlite":
        return "sqlite:///state.db"
    return own_server(SERVERS[request.param]).url


def sluicegate(folder: Path, store: str, *command: str, **more: object) -> tuple[int, str]:
    rule = {"from": "in", "aggregate": {"count": 2}, "to": {"topic": "out"}}
    document = {
        "app": "shop",
        "kafka": {"bootstrap.servers": NOBODY},
        "store": store,
        "http": False,
        "agents": {"a": rule},
    } | more
    file = folder / "app.yaml"
    file.write_text(json.dumps(document | {"start_timeout": "3s", "accept_level": "volatile"}))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("SLUICEGATE_")}
    done = subprocess.run(
        [str(SLUICEGATE), command[0], str(file), *command[1:]], env=environ, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def to_do(folder: Path, store: str) -> list[str]:
    opened = open_store(store, str(folder))
    try:
        return list(opened.migrate(dry_run=True))
    finally:
        opened.close()


def test_a_worker_that_may_not_migrate_says_what_to_run_ends_with_3_and_makes_nothing(
    fresh: str, tmp_path: Path
) -> None:
    code, output = sluicegate(tmp_path, fresh, "run", auto_migrate=False)
    assert (code, REFUSAL in output, REMEDY in output) == (3, True, True), output
    assert to_do(tmp_path, fresh) != []
    assert sluicegate(tmp_path, fresh, "migrate", auto_migrate=False)[0] == 0
    assert to_do(tmp_path, fresh) == []
    code, output = sluicegate(tmp_path, fresh, "run", auto_migrate=False)
    # what lacks now is the broker
    assert (code, REFUSAL in output, "store.ready" in output) == (3, False, True), output


def test_without_a_word_run_migrates_what_has_no_schema_of_an_operator_and_nothing_else(
    fresh: str, tmp_path: Path
) -> None:
    by_itself = fresh.startswith(("sqlite", "redis"))
    code, output = sluicegate(tmp_path, fresh, "run")
    assert (code, REFUSAL in output, to_do(tmp_path, fresh) == []) == (3, not by_itself, by_itself), output


def test_a_file_that_asks_for_it_has_every_store_migrated(fresh: str, tmp_path: Path) -> None:
    code, output = sluicegate(tmp_path, fresh, "run", auto_migrate=True)
    assert (code, REFUSAL in output, to_do(tmp_path, fresh)) == (3, False, []), output
