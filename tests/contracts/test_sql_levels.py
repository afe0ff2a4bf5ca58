"""What the level of a SQL server rests on: every precondition set wrong on a real server changes it."""

from collections.abc import Callable

import pytest

from sluicegate.connectors.sql import mysql, postgresql
from sluicegate.streams.contracts.values import Level
from tests.contracts.given import opened
from tests.contracts.sql import execute
from tests.servers import Mariadb, Postgres, Server

WRONG = [
    (Postgres, "fsync=off", "fsync is off, not on"),
    (Postgres, "full_page_writes=off", "full_page_writes is off, not on"),
    (Postgres, "synchronous_commit=off", "synchronous_commit is off, not on"),
    (Postgres, "synchronous_commit=local", "synchronous_commit is local, not on"),
    (Mariadb, "--innodb-flush-log-at-trx-commit=2", "innodb_flush_log_at_trx_commit is 2, not 1"),
    (Mariadb, "--innodb-flush-log-at-trx-commit=0", "innodb_flush_log_at_trx_commit is 0, not 1"),
    (Mariadb, "--skip-innodb-doublewrite", "innodb_doublewrite is OFF, not ON"),
    (Mariadb, "--log-bin=log", "sync_binlog is 0, not 1"),
    (
        Mariadb,
        "--max-allowed-packet=1M",
        "max_allowed_packet is 1048576, below 10485760: large entries would be refused",
    ),
]
SHOWN = {
    "version": "8.0.36",
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_doublewrite": "ON",
    "read_only": "OFF",
    "max_allowed_packet": "67108864",
}


@pytest.mark.parametrize("fixture", ["postgres_url", "mariadb_url"])
def test_a_server_that_syncs_every_commit_is_durable(fixture: str, request: pytest.FixtureRequest) -> None:
    assert opened(request.getfixturevalue(fixture)).level() == Level("durable", ())


@pytest.mark.parametrize(("kind", "setting", "reason"), WRONG)
def test_one_wrong_setting_makes_a_server_lossy(
    own_server: Callable[..., Server], kind: type, setting: str, reason: str
) -> None:
    assert opened(own_server(kind, args=[setting]).url).level() == Level("lossy", (reason,))


def test_a_postgresql_that_only_reads_is_lossy(own_server: Callable[..., Server]) -> None:
    server = own_server(Postgres)
    opened(server.url).close()
    execute(server.url, "alter system set default_transaction_read_only = on", "select pg_reload_conf()")
    store = opened_unmigrated(server.url)
    assert store.level() == Level("lossy", ("transactions are read-only (default_transaction_read_only)",))


def test_a_postgresql_in_recovery_is_lossy(own_server: Callable[..., Server]) -> None:
    server = own_server(Postgres, args=["restore_command=false"])
    server.stop()
    (server.place.data / "standby.signal").touch()
    server.restart()
    assert opened_unmigrated(server.url).level() == Level(
        "lossy", ("the server is in recovery: a replica, not the primary",)
    )


def test_a_mariadb_that_only_reads_is_lossy(own_server: Callable[..., Server]) -> None:
    server = own_server(Mariadb)
    store = opened(server.url)
    execute(server.url, "set global read_only = on")
    assert store.level() == Level("lossy", ("read_only is ON, not OFF",))


def test_a_table_outside_of_innodb_is_lossy_and_a_default_engine_makes_none(own_server: Callable[..., Server]) -> None:
    server = own_server(Mariadb, args=["--default-storage-engine=Aria"])
    store = opened(server.url)
    assert store.level() == Level("durable", ())
    execute(server.url, "alter table sluicegate_claim engine = Aria")
    assert store.level() == Level("lossy", ("the table sluicegate_claim is not InnoDB's",))


def opened_unmigrated(url: str):
    from sluicegate.connectors import open_store

    return open_store(url)


@pytest.mark.parametrize(
    ("version", "old"),
    [
        ("10.5.29-MariaDB", True),
        ("10.6.2-MariaDB-log", False),
        ("11.4.5-MariaDB", False),
        ("5.7.44", True),
        ("8.0.36", False),
        ("9.1.0", False),
    ],
)
def test_a_mysql_or_mariadb_that_is_too_old_is_lossy(version: str, old: bool) -> None:
    level = mysql.judged(SHOWN | {"version": version}, [])
    assert (level.name == "lossy", any("below" in reason for reason in level.reasons)) == (old, old)


@pytest.mark.parametrize("name", sorted(set(SHOWN)))
def test_what_mysql_does_not_tell_counts_as_wrong(name: str) -> None:
    assert mysql.judged({known: value for known, value in SHOWN.items() if known != name}, []).name == "lossy"


def test_a_postgresql_that_is_too_old_is_lossy() -> None:
    good = False, "off", "on", "on", "on"
    assert postgresql.judged(130000, *good) == Level("durable", ())
    assert postgresql.judged(120022, *good) == Level("lossy", ("version is 12, below 13",))
