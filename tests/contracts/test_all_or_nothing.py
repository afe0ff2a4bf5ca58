"""A commit that fails in the middle has changed nothing, whatever made it fail."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from sluicegate.connectors.redis.state import _keys
from sluicegate.connectors.sql import statements
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import PersistenceError
from tests.contracts import scenarios
from tests.contracts.given import claimed, everything, opened, picture, rows, seen
from tests.servers import Server
from tests.servers.valkey import Valkey

PLANTED = {"log": 1, "outbox": 2, "dead": 3, "cold": 4, "cold-keys": 5, "cold-due": 6}


def plant(url: str, partition: Partition, which: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Actions that put a key of the wrong type in the place of one of the partition's, and the right one back."""
    client, key = redis.Redis.from_url(url), _keys(partition)[PLANTED[which]]

    def spoil() -> None:
        if client.exists(key):
            client.rename(key, f"{key}:aside")
        client.set(key, "planted")

    def repair() -> None:
        client.delete(key)
        if client.exists(f"{key}:aside"):
            client.rename(f"{key}:aside", key)

    return spoil, repair


@pytest.mark.parametrize("which", PLANTED)
def test_a_key_of_the_wrong_type_fails_the_commit_as_a_whole(redis_url: str, partition: Partition, which: str) -> None:
    spoil, repair = plant(redis_url, partition, which)
    scenarios.a_failing_commit_changes_nothing(opened(redis_url), partition, spoil, repair)


def test_a_claim_key_of_the_wrong_type_fails_claim_commit_and_read(redis_url: str, partition: Partition) -> None:
    store, client = opened(redis_url), redis.Redis.from_url(redis_url)
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"e1"]))
    client.delete(_keys(partition)[0])
    client.set(_keys(partition)[0], "planted")
    for action in (
        lambda: claimed(store, partition),
        lambda: store.commit(claim, Changes(2)),
        lambda: store.read(partition),
    ):
        with pytest.raises(PersistenceError, match="WRONGTYPE"):
            action()
    assert client.get(_keys(partition)[0]) == b"planted"


def test_a_commit_on_a_changelog_that_lost_entries_is_refused(redis_url: str, partition: Partition) -> None:
    store, client = opened(redis_url), redis.Redis.from_url(redis_url)
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"e1", b"e2"]))
    client.lpop(_keys(partition)[1])
    with pytest.raises(PersistenceError, match="not what its claim row says"):
        store.commit(claim, Changes(2, entries=[b"e3"]))
    assert (seen(store, partition).claim.offset, seen(store, partition).entries) == (1, [b"e2"])


def test_a_redis_without_memory_fails_the_commit_as_a_whole(
    own_server: Callable[..., Server], partition: Partition
) -> None:
    store = opened(own_server(Valkey, args=("--maxmemory-policy", "noeviction")).url)
    client = store._server()
    scenarios.a_failing_commit_changes_nothing(
        store, partition, lambda: client.config_set("maxmemory", 1), lambda: client.config_set("maxmemory", 0)
    )


@pytest.mark.parametrize("name", ["ADD_ENTRY", "DROP_ENTRIES", "DROP_UNSENT", "ADD_UNSENT"])
def test_any_failing_statement_fails_the_sqlite_commit_as_a_whole(
    tmp_path: Path, partition: Partition, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    good = getattr(statements, name)
    scenarios.a_failing_commit_changes_nothing(
        opened(f"sqlite:///{tmp_path}/state.db"),
        partition,
        lambda: monkeypatch.setattr(statements, name, f"{good} nonsense"),
        lambda: monkeypatch.setattr(statements, name, good),
    )


def sqlite_trigger(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """Actions on the database itself: the second of two outbox rows is refused, and taken again."""

    def run(text: str) -> None:
        with sqlite3.connect(path, isolation_level=None) as db:
            db.execute(text)

    spoil = (
        "create trigger spoilt before insert on sluicegate_outbox when new.number = 6 begin select raise(abort, "
        "'spoilt'); end"
    )
    return lambda: run(spoil), lambda: run("drop trigger spoilt")


def test_a_row_that_the_database_refuses_fails_the_sqlite_commit_as_a_whole(
    tmp_path: Path, partition: Partition
) -> None:
    store = opened(f"sqlite:///{tmp_path}/state.db")
    scenarios.a_failing_commit_changes_nothing(store, partition, *sqlite_trigger(tmp_path / "state.db"))


def test_a_locked_sqlite_file_fails_the_commit_as_a_whole(
    tmp_path: Path, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.connectors.sql.sqlite.BUSY_SECONDS", 0.1)
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    scenarios.a_failing_commit_changes_nothing(
        opened(f"sqlite:///{tmp_path}/state.db"),
        partition,
        lambda: other.execute("begin immediate"),
        lambda: other.execute("rollback"),
    )


def test_values_that_sqlite_cannot_hold_fail_the_commit_as_a_whole(tmp_path: Path, partition: Partition) -> None:
    store = opened(f"sqlite:///{tmp_path}/state.db")
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(1, 2, 3, 4), entries=[b"1", b"2"]))
    before = picture(store, partition)
    with pytest.raises(OverflowError):
        store.commit(claim, Changes(2, entries=[b"x"], outbox=rows(7, 2**70)))
    assert picture(store, partition) == before
    assert store.commit(claim, everything()).offset == 50
