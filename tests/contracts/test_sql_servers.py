"""PostgreSQL and MariaDB when they fail: killed, cut off, hanging, locked, full of connections, read-only, wiped."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from sluicegate.connectors import open_store
from sluicegate.connectors.sql import server as sql_server
from sluicegate.connectors.sql import state as sql_state
from sluicegate.connectors.sql import statements
from sluicegate.connectors.sql.database import StoreSession
from sluicegate.connectors.sql.postgresql import Postgresql
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import Fenced, PersistenceError
from tests.contracts import scenarios
from tests.contracts.given import claimed, everything, opened, picture, rows, seen
from tests.contracts.sql import database, execute, other
from tests.contracts.test_processes import consistent, worker  # noqa: F401
from tests.contracts.worker import Worker
from tests.servers import Mariadb, Postgres, Proxy, Server
from tests.waiting import wait_until

KINDS = {"postgres": Postgres, "mariadb": Mariadb}


@pytest.fixture(params=list(KINDS))
def url(request: pytest.FixtureRequest, ns: str) -> str:
    """A database of the test's own on the run's server."""
    return database(request.getfixturevalue(f"{request.param}_url"), ns)


@pytest.fixture(params=list(KINDS))
def server(request: pytest.FixtureRequest, own_server: Callable[..., Server]) -> Server:
    return own_server(KINDS[request.param])


@pytest.fixture
def wire(url: str, proxy: Callable[..., Proxy]) -> Proxy:
    return proxy(url)


@pytest.fixture
def store(url: str, wire: Proxy) -> Iterator[Store]:
    """A store whose connections go through `wire`."""
    opened(url).close()
    scheme, _, rest = url.partition("://")
    made = open_store(f"{scheme}://{rest.partition('@')[0]}@127.0.0.1:{wire.port}/{rest.rpartition('/')[2]}")
    yield made
    made.close()


def test_a_server_killed_under_commits_keeps_whole_ones_and_all_that_it_acknowledged(
    server: Server,
    partition: Partition,
    worker: Callable[[str], Worker],  # noqa: F811
) -> None:
    store = opened(server.url)
    for round_ in range(3):
        process = worker(server.url)
        assert process.ask(f"claim token-{round_}") == "done"
        process.tell("loop")
        lines = [process.heard() for _ in range(20)]
        server.kill9()
        while lines[-1].isdigit():
            lines.append(process.heard())
        assert lines[-1] == "PersistenceError"
        server.restart()
        wait_until(lambda: scenarios.error_of(lambda: store.read(partition)) is None, 5, "the store after the restart")
        assert int(lines[-2]) <= consistent(store, partition) <= int(lines[-2]) + 1


def test_a_commit_whose_reply_is_lost_is_unknown_and_the_next_claim_shows_it(
    store: Store, wire: Proxy, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = store.commit(claimed(store, partition), Changes(1))
    wire.hold("to-server", b"commit")
    with ThreadPoolExecutor() as pool:
        result = pool.submit(store.commit, claim, Changes(2, entries=[b"e"], outbox=rows(1)))
        wire.wait_held()
        wire.drop_replies()
        # What was held goes on; nothing comes back before the connection breaks.
        wire._call(_deliver(wire))
        wait_until(lambda: wire.dropped > 0, what="the lost reply")
        wire.reset()
        with pytest.raises(PersistenceError):
            result.result(30)
    wire.release()
    claim = claimed(store, partition)
    assert (claim.offset, claim.number, list(store.restore(claim))) == (2, 1, [b"e"])


async def _deliver(wire: Proxy) -> None:
    wire._ways["to-server"].marker = None
    wire._ways["to-server"].open.set()


def test_a_commit_cut_off_before_its_end_landed_nothing(store: Store, wire: Proxy, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1))
    before = picture(store, partition)
    wire.hold("to-server", b"commit")
    with ThreadPoolExecutor() as pool:
        result = pool.submit(store.commit, claim, Changes(2, entries=[b"e"], outbox=rows(1)))
        wire.wait_held()
        wire.reset()
        with pytest.raises(PersistenceError):
            result.result(30)
    wire.release()
    assert picture(store, partition) == before
    assert store.commit(claimed(store, partition), Changes(3)).offset == 3


def test_every_call_on_a_broken_wire_is_a_persistence_error_and_the_next_one_works(
    store: Store, wire: Proxy, partition: Partition
) -> None:
    claim = claimed(store, partition)
    wire.refuse()
    wire.reset()
    calls = (
        lambda: store.claim(partition, "t", "m"),
        lambda: store.commit(claim, Changes(1)),
        lambda: store.pending(partition, 0, 1),
        lambda: store.clear_crash_mark(partition, "t", ["p"]),
        lambda: store.read(partition),
        lambda: store.partitions(partition.app),
        store.level,
        store.migrate,
        lambda: store.incarnation,
    )
    for call in calls:
        with pytest.raises(PersistenceError):
            call()
    wire.accept()
    assert store.commit(claim, Changes(1)).offset == 1


def test_a_server_that_hangs_ends_as_a_persistence_error(
    server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_server, "REPLY_SECONDS", 1)
    store = opened(server.url)
    claim = claimed(store, partition)
    server.pause()
    with pytest.raises(PersistenceError, match=r"[Tt]ime"):
        store.commit(claim, Changes(1))
    server.resume()
    assert claimed(store, partition).offset in (-1, 1)


def test_an_owner_stopped_inside_its_commit_is_freed_within_seconds(url: str, partition: Partition) -> None:
    store = opened(url)
    claim = store.commit(claimed(store, partition), Changes(1))
    stopped, resumed = threading.Event(), threading.Event()

    def stop(db: StoreSession) -> None:
        assert db.rows(statements.TRYING + store._product.locking, (sql_state._key(partition),))
        stopped.set()
        resumed.wait(60)

    with ThreadPoolExecutor() as pool:
        hanging = pool.submit(opened(url)._database.run, stop, store._product.begin)
        assert stopped.wait(10)
        freed = pool.submit(claimed, store, partition)
        try:
            assert freed.result(5).offset == claim.offset
        finally:
            resumed.set()
        with pytest.raises(PersistenceError):
            hanging.result(30)


def test_commits_larger_than_any_buffer_of_the_wire_arrive(url: str, partition: Partition) -> None:
    """psycopg left the rest of some of them unsent."""
    store = opened(url)
    claim = claimed(store, partition)
    for number in range(8):
        claim = store.commit(claim, Changes(number, entries=[b"%d" % number * 4_000_000] * 3, keep_from=claim.last + 1))
    assert list(store.restore(claim)) == [b"7" * 4_000_000] * 3


def test_a_deadlock_is_repeated_as_a_whole_and_both_transactions_land(url: str, partition: Partition) -> None:
    store = opened(url)
    places = [partition._replace(number=number) for number in (1, 2)]
    for place in places:
        claimed(store, place)
    gate, tries = threading.Barrier(2), []

    def crossing(order: list[Partition]) -> None:
        def work(db: StoreSession) -> None:
            tries.append(order[0].number)
            for at, place in enumerate(order):
                db.rows(statements.TRYING + store._product.locking, (sql_state._key(place),))
                if at == 0 and len(tries) <= 2:
                    gate.wait(10)
                db.run(
                    "update sluicegate_claim set version = version + 1 where partition_key = %s",
                    (sql_state._key(place),),
                )

        store._database.run(work, store._product.begin)

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(crossing, order) for order in (places, places[::-1])]:
            done.result(60)
    assert len(tries) == 3
    assert [seen(store, place).claim.version for place in places] == [2, 2]


def behind_the_times(url: str, partition: Partition) -> Claim:
    """A commit in a snapshot older than what another transaction did to its row meanwhile."""
    serializable = opened(f"{url}?options=-c%20default_transaction_isolation%3Dserializable")
    claim = claimed(serializable, partition)
    with other(url) as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("begin")
        cursor.execute("update sluicegate_claim set trying = null")
        done = pool.submit(serializable.commit, claim, Changes(1, entries=[b"e"]))
        waits = (
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%update sluicegate%'"
        )
        wait_until(lambda: done.done() or execute(url, waits)[0][0], 10, "the commit's wait for the row")
        cursor.execute("commit")
        return done.result(30)


def test_a_serialization_failure_is_repeated_as_a_whole(postgres_url: str, ns: str, partition: Partition) -> None:
    assert behind_the_times(database(postgres_url, ns), partition).offset == 1


def test_without_the_repetition_a_serialization_failure_ends_the_commit(
    postgres_url: str, ns: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Postgresql, "retryable", frozenset())
    with pytest.raises(PersistenceError, match="40001"):
        behind_the_times(database(postgres_url, ns), partition)


def test_more_calls_than_connections_end_as_a_persistence_error(
    url: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_server, "CONNECTIONS", 1)
    monkeypatch.setattr(sql_server, "FREE_SECONDS", 0.2)
    store = opened(url)
    claim = claimed(store, partition)
    with pytest.raises(PersistenceError, match="all 1 connections were in use"):
        store._database.run(lambda _: store.commit(claim, Changes(1)))
    assert store.commit(claim, Changes(1)).offset == 1


def test_a_server_without_free_connections_ends_as_a_persistence_error(own_server: Callable[..., Server]) -> None:
    server = own_server(
        Postgres,
        args=["max_connections=5", "superuser_reserved_connections=0", "reserved_connections=0", "max_wal_senders=0"],
    )
    with ExitStack() as others:
        for _ in range(5):
            others.enter_context(other(server.url))
        with pytest.raises(PersistenceError, match="too many clients"):
            open_store(server.url).migrate()


@pytest.mark.parametrize("table", ["sluicegate_changelog", "sluicegate_outbox"])
def test_a_table_that_is_gone_fails_the_commit_as_a_whole(url: str, partition: Partition, table: str) -> None:
    store = opened(url)
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"e1", b"e2"], outbox=rows(1, 2, 3, 4)))
    before = picture(store, partition)
    execute(url, f"alter table {table} rename to aside")
    with pytest.raises(Fenced):
        store.commit(claim, everything())
    execute(url, f"alter table aside rename to {table}")
    assert picture(store, partition) == before
    assert store.commit(claim, everything()).offset == 50


def test_a_row_that_is_there_already_fails_the_commit_as_a_whole(url: str, partition: Partition) -> None:
    store, key = opened(url), sql_state._key(partition)
    plant = f"insert into sluicegate_outbox values ('{key}', 6, 'x')"
    drop = f"delete from sluicegate_outbox where partition_key = '{key}' and number = 6 and message = 'x'"
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"e1", b"e2"], outbox=rows(1, 2, 3, 4)))
    before = picture(store, partition)
    execute(url, plant)
    with pytest.raises(PersistenceError):
        store.commit(claim, everything())
    with pytest.raises(Fenced):
        store.commit(sql_state.msgspec.structs.replace(claim, version=0), everything())
    execute(url, drop)
    assert picture(store, partition) == before
    assert store.commit(claim, everything()).offset == 50


def test_a_reader_overtaken_by_a_commit_sees_one_picture(
    url: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtaken(url, partition, monkeypatch)


def test_without_its_transaction_a_reader_sees_half_a_commit(
    url: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = type(open_store(url)._product)
    monkeypatch.setattr(product, "begin_reading", product.begin)
    with pytest.raises(AssertionError):
        overtaken(url, partition, monkeypatch)


def overtaken(url: str, partition: Partition, patch: pytest.MonkeyPatch) -> None:
    writer, reader = opened(url), opened(url)
    claim = claimed(writer, partition)
    claim = writer.commit(claim, Changes(1, entries=[b"before"], keep_from=claim.last + 1))
    read_claim = sql_state._claim

    def between(*row):
        writer.commit(claim, Changes(2, entries=[b"after"], keep_from=claim.last + 1))
        return read_claim(*row)

    with patch.context() as patched:
        patched.setattr(sql_state, "_claim", between)
        view = seen(reader, partition)
    assert (view.claim.offset, view.entries) == (1, [b"before"])
