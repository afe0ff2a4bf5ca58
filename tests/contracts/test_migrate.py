"""Migration: stepwise, recorded, safe to repeat, and safe when two do it at once."""

import sqlite3
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import redis

from sluicegate.connectors import open_store
from sluicegate.connectors.sql import tables
from sluicegate.streams.contracts.leased_values import Entry, Gate
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import SystemNotReady
from tests.contracts.given import claimed, rows
from tests.contracts.sql import database, execute
from tests.servers import Server
from tests.servers.valkey import Valkey


@pytest.fixture(params=["sqlite", "redis", "mongodb", "postgres", "mariadb"])
def fresh_url(request: pytest.FixtureRequest, tmp_path: Path, ns: str) -> str:
    """A place where no store was ever."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    if request.param in ("postgres", "mariadb"):
        return database(request.getfixturevalue(f"{request.param}_url"), ns)
    if request.param == "mongodb":
        return request.getfixturevalue("mongodb_url").replace("/sluicegate?", f"/{ns}?")
    return request.getfixturevalue("own_server")(Valkey).url


def test_236_the_first_migration_says_what_it_did_and_the_second_does_nothing(fresh_url: str) -> None:
    store = open_store(fresh_url)
    planned = store.migrate(dry_run=True)
    assert planned != []
    assert store.migrate() == planned
    assert (store.migrate(), store.migrate(dry_run=True), open_store(fresh_url).migrate()) == ([], [], [])


def test_a_dry_run_makes_nothing(fresh_url: str) -> None:
    assert open_store(fresh_url).migrate(dry_run=True) == open_store(fresh_url).migrate(dry_run=True) != []
    with pytest.raises(SystemNotReady):
        _ = open_store(fresh_url).incarnation


def test_a_dry_run_on_sqlite_makes_no_file(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/state.db").migrate(dry_run=True)
    assert list(tmp_path.iterdir()) == []


def test_migrating_again_keeps_the_name_and_the_data(fresh_url: str, partition: Partition) -> None:
    store = open_store(fresh_url)
    store.migrate()
    name = store.incarnation
    store.commit(claimed(store, partition), Changes(5, entries=[b"e"]))
    store.migrate()
    assert (store.incarnation, claimed(store, partition).offset) == (name, 5)


def test_159_of_many_that_migrate_at_once_one_does_and_records_each_step(fresh_url: str) -> None:
    steps = open_store(fresh_url).migrate(dry_run=True)
    stores, results, names, gate = [open_store(fresh_url) for _ in range(6)], [], [], threading.Barrier(6)

    def work(store: Store) -> None:
        gate.wait(20)
        results.extend(store.migrate())
        names.append(store.incarnation)

    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == sorted(steps)
    assert (len(names), len(set(names))) == (6, 1)


@pytest.mark.parametrize("fresh_url", ["sqlite", "postgres", "mariadb"], indirect=True)
def test_160_steps_are_numbered_once_and_may_run_again(fresh_url: str, partition: Partition) -> None:
    store: Any = open_store(fresh_url)
    steps = store.migrate()
    assert len(set(steps)) == len(steps) >= 2
    store.commit(claimed(store, partition), Changes(5, entries=[b"e"]))
    store.outbox.add(None, [OutboxMessage("t", id="m1")], require_transaction=False)
    forget = "delete from sluicegate_step"
    if fresh_url.startswith("sqlite:"):
        with sqlite3.connect(fresh_url.removeprefix("sqlite:///")) as db:
            db.execute(forget)
    else:
        execute(fresh_url, forget)
    assert store.migrate() == steps
    assert (claimed(store, partition).offset, store.outbox.count(), store.migrate()) == (5, 1, [])


def test_two_new_places_have_two_names(fresh_url: str, tmp_path: Path) -> None:
    stores = open_store(fresh_url), open_store(f"sqlite:///{tmp_path}/other.db")
    for store in stores:
        store.migrate()
    assert len({store.incarnation for store in stores}) == 2


def test_memory_has_nothing_to_migrate(ns: str) -> None:
    assert (open_store(f"memory://{ns}").migrate(), open_store(f"memory://{ns}").migrate(dry_run=True)) == ([], [])


def test_a_step_that_fails_leaves_nothing_and_is_done_the_next_time(
    tmp_path: Path, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, steps = open_store(f"sqlite:///{tmp_path}/state.db"), tables.STEPS

    def second(*texts: str) -> tuple[tables.Step, ...]:
        return steps[0], tables.Step("second", (), {"sqlite": texts})

    monkeypatch.setattr(tables, "STEPS", second("create table sluicegate_more (x integer)", "nonsense"))
    with pytest.raises(Exception, match="nonsense"):
        store.migrate()
    monkeypatch.setattr(tables, "STEPS", second("create table sluicegate_more (x integer)"))
    assert store.migrate() == [steps[0].name, "second"]
    assert store.commit(claimed(store, partition), Changes(1)).offset == 1


def test_a_store_ahead_of_this_program_is_refused(tmp_path: Path, own_server: Callable[..., Server]) -> None:
    store = open_store(f"sqlite:///{tmp_path}/state.db")
    store.migrate()
    with sqlite3.connect(tmp_path / "state.db", isolation_level=None) as db:
        db.execute("insert into sluicegate_step values (99, 'future', 0)")
    with pytest.raises(SystemNotReady, match="step 99"):
        store.migrate()
    server = own_server(Valkey)
    redis.Redis.from_url(server.url).set("sluicegate:{data}:schema", 99)
    for dry_run in (True, False):
        with pytest.raises(SystemNotReady, match="step 99"):
            open_store(server.url).migrate(dry_run)


def test_an_unmigrated_sqlite_file_is_named_with_what_to_do(tmp_path: Path, partition: Partition) -> None:
    store = open_store(f"sqlite:///{tmp_path}/state.db")
    for action in (
        lambda: claimed(store, partition),
        lambda: store.read(partition),
        lambda: store.partitions("a"),
        lambda: store.incarnation,
    ):
        with pytest.raises(SystemNotReady, match=r"state\.db"):
            action()
    assert not (tmp_path / "state.db").exists()
    sqlite3.connect(tmp_path / "state.db").execute("create table other (x)").connection.close()
    with pytest.raises(SystemNotReady, match="sluicegate migrate"):
        claimed(store, partition)


OLD_LEASES = (
    "insert into sluicegate_buffer (name, last_row) values ('b', 1)",
    "insert into sluicegate_buffer_row values ('b', 1, 'm1', 'c1', 'g', 't', {data}, {data}, 1, 3600000000, 'id', 0)",
    "insert into sluicegate_buffer_hold values ('b', 'id', 'count', 'g', 1, 'token', 1, 1)",
    "insert into sluicegate_buffer_key values ('b', 'm0', 9000000000000000)",
    "insert into sluicegate_lane values (13, 'dead', 1, 1, {given})",
)
"""As the version before step 4 wrote them. They do not say when the leases began."""


@pytest.mark.parametrize("fresh_url", ["sqlite", "postgres", "mariadb"], indirect=True)
def test_leases_from_before_they_had_a_begin_end_as_they_did(fresh_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tables, "STEPS", tables.STEPS[:3])
        open_store(fresh_url).migrate()
    data, words = ("''", "'\\x90'") if fresh_url.startswith("postgresql") else ("x''", "x'90'")
    for statement in OLD_LEASES:
        done(fresh_url, statement.format(data=data, given=words))
    store: Any = open_store(fresh_url)
    assert len(store.migrate()) == len(tables.STEPS) - 3
    gate, keep = Gate(1, after_first=timedelta(hours=1)), timedelta(hours=1)
    [batch] = store.buffer.due("b", gate)
    assert (batch.id, batch.attempts, store.buffer.complete("b", batch)) == ("id", 2, 1)
    assert store.buffer.insert("b", [Entry("m0", "c"), Entry("m1", "c"), Entry("m2", "c")], keep_keys=keep) == (1, 2)
    claimed_lane = store.outbox.claim(13, "mine", 10)
    assert claimed_lane.token == "mine"


def done(url: str, statement: str) -> None:
    if url.startswith("sqlite:"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
            db.execute(statement)
    else:
        execute(url, statement)


def test_unsent_rows_from_before_sqlite_kept_them_in_another_order_are_sent(
    tmp_path: Path, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    with monkeypatch.context() as patch:
        patch.setattr(tables, "STEPS", tables.STEPS[:7])
        before = open_store(url)
        before.migrate()
        claim = before.commit(claimed(before, partition), Changes(1, outbox=rows(1, 2, 3)))
    store = open_store(url)
    assert len(store.migrate()) == len(tables.STEPS) - 7
    assert list(store.pending(partition, 0, 9)) == rows(1, 2, 3)
    store.commit(claim, Changes(2, dispatched=[1, 3], outbox=rows(4)))
    assert list(store.pending(partition, 0, 9)) == rows(2, 4)


def test_rows_of_sqlite_share_pages(tmp_path: Path, partition: Partition) -> None:
    """Two of 1,500 bytes are in a page of 4 KiB."""
    store = open_store(f"sqlite:///{tmp_path}/state.db")
    store.migrate()
    pages = "select page_count from pragma_page_count"
    many = [msgspec.structs.replace(row, value=b"x" * 1500) for row in rows(*range(1, 1001))]
    with sqlite3.connect(tmp_path / "state.db") as db:
        [before] = db.execute(pages).fetchone()
        store.commit(claimed(store, partition), Changes(1, outbox=many))
        [after] = db.execute(pages).fetchone()
    assert after - before < 600


OLD_TIMEOUT = (
    "insert into sluicegate_timeout (id, destination, due_at, message_key, payload, headers, owner, locked_until, "
    "locked_by) values ('{id}', 't', 1000000, null, null, {headers}, null, 0, '')"
)
"""As the version before step 3 wrote it."""


@pytest.mark.parametrize("fresh_url", ["sqlite", "postgres", "mariadb"], indirect=True)
def test_open_rows_from_before_they_had_an_app_are_found_and_sent(
    fresh_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = uuid4()
    with monkeypatch.context() as patch:
        patch.setattr(tables, "STEPS", tables.STEPS[:2])
        before: Any = open_store(fresh_url)
        before.migrate()
        before.outbox.add(None, [OutboxMessage("t", b"k", id="m1")], require_transaction=False)
    headers = "'\\x90'" if fresh_url.startswith("postgresql") else "x'90'"
    done(fresh_url, OLD_TIMEOUT.format(id=id.hex, headers=headers))
    store: Any = open_store(fresh_url, app="one")
    assert len(store.migrate()) == len(tables.STEPS) - 2
    assert [(timeout.id, timeout.after) for timeout in store.timeouts.find()] == [(id, None)]
    assert store.timeouts.emit(store.timeouts.get_batch()) == 1
    assert store.outbox.count() == 2
    claimed_rows = [store.outbox.claim(lane, "token", 10).rows for lane in store.outbox.lane_numbers()]
    assert len([row for rows in claimed_rows for row in rows]) == 2
    assert store.timeouts.count() == 0
