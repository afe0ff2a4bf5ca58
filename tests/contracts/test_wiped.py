"""Data that vanish under a live claim: the commit is fenced, and the next claim shows that this is another store."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced, SystemNotReady
from tests.contracts.given import claimed, opened, rows
from tests.servers import Server
from tests.servers.valkey import Valkey


def fenced_after(wipe: Callable[[], object], store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(5, entries=[b"e"], outbox=rows(1)))
    wipe()
    with pytest.raises(Fenced):
        store.commit(claim, Changes(6, entries=[b"late"], outbox=rows(2)))


def starts_from_nothing_under_another_name(store: Store, partition: Partition, name: str) -> None:
    claim = claimed(store, partition)
    assert (claim.offset, claim.number, claim.last, list(store.pending(partition, 0, 9))) == (-1, 0, 0, [])
    assert claim.incarnation == store.incarnation != name


def test_a_memory_store_that_lost_a_partition_fences_its_owner(ns: str, partition: Partition) -> None:
    store = opened(f"memory://{ns}")
    fenced_after(store._rows.clear, store, partition)


def test_a_flushed_redis_fences_and_gets_another_name(own_server: Callable[..., Server], partition: Partition) -> None:
    server = own_server(Valkey)
    store = opened(server.url)
    name = store.incarnation
    fenced_after(redis.Redis.from_url(server.url).flushall, store, partition)
    starts_from_nothing_under_another_name(store, partition, name)


def test_emptied_sqlite_tables_fence_and_get_another_name(tmp_path: Path, partition: Partition) -> None:
    store = opened(f"sqlite:///{tmp_path}/state.db")
    name = store.incarnation

    def empty() -> None:
        with sqlite3.connect(tmp_path / "state.db", isolation_level=None) as db:
            for table in ("meta", "claim", "changelog", "outbox", "dead"):
                db.execute(f"delete from sluicegate_{table}")

    fenced_after(empty, store, partition)
    starts_from_nothing_under_another_name(store, partition, name)


def test_a_deleted_sqlite_file_fences_and_is_never_written_to_again(tmp_path: Path, partition: Partition) -> None:
    store = opened(f"sqlite:///{tmp_path}/state.db")
    name = store.incarnation
    fenced_after((tmp_path / "state.db").unlink, store, partition)
    assert not (tmp_path / "state.db").exists()
    with pytest.raises(SystemNotReady):
        claimed(store, partition)
    assert store.migrate() != []
    starts_from_nothing_under_another_name(store, partition, name)


def test_a_replaced_sqlite_file_fences_and_shows_its_own_rows(tmp_path: Path, partition: Partition) -> None:
    store, other = opened(f"sqlite:///{tmp_path}/state.db"), opened(f"sqlite:///{tmp_path}/other.db")
    other.commit(claimed(other, partition), Changes(77))
    other.close()
    name = store.incarnation

    def replace() -> None:
        for rest in ("-wal", "-shm"):
            (tmp_path / f"state.db{rest}").unlink()
        (tmp_path / "other.db").rename(tmp_path / "state.db")

    fenced_after(replace, store, partition)
    assert (claimed(store, partition).offset, store.incarnation != name) == (77, True)


def test_a_row_keeps_the_name_of_the_data_it_was_made_in(tmp_path: Path, partition: Partition) -> None:
    """A row that was copied into another store still tells where it comes from."""
    store = opened(f"sqlite:///{tmp_path}/state.db")
    name = claimed(store, partition).incarnation
    with sqlite3.connect(tmp_path / "state.db", isolation_level=None) as db:
        db.execute("update sluicegate_meta set value = 'another'")
    assert (claimed(store, partition).incarnation, store.incarnation) == (name, "another")
    assert claimed(store, partition._replace(number=4)).incarnation == "another"


def test_a_redis_row_keeps_the_name_of_the_data_it_was_made_in(
    own_server: Callable[..., Server], partition: Partition
) -> None:
    server = own_server(Valkey)
    store = opened(server.url)
    name = claimed(store, partition).incarnation
    redis.Redis.from_url(server.url).set("sluicegate:{data}:incarnation", "another")
    assert (claimed(store, partition).incarnation, store.incarnation) == (name, "another")
