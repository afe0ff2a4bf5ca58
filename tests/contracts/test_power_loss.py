"""A disk whose syncs fail, and a power loss that takes what was not synced: all that was acknowledged is there, and
each commit as a whole.

The store's process asks us for each sync (tests/servers/disk.py). Each backend's twin acknowledges before it syncs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Partition
from tests.contracts.given import opened
from tests.contracts.test_processes import consistent
from tests.contracts.worker import Worker
from tests.servers import Postgres, Server
from tests.servers.disk import Disk, disk_or_skip
from tests.servers.valkey import Valkey
from tests.waiting import wait_until

OwnServer = Callable[..., Server]
# a thousand files that we would be asked for, one by one
SETTINGS = {"redis": (), "postgresql": ("recovery_init_sync_method=syncfs",)}
NOT_DURABLE = {"redis": ("--appendfsync", "no"), "postgresql": ("synchronous_commit=off", "wal_writer_delay=10s")}
KINDS = {"redis": Valkey, "postgresql": Postgres}
SAID = {"redis": "fsync", "postgresql": "PANIC"}


@dataclass
class Site:
    """A store, its disk, and one process that commits to it: the store's own with SQLite, else `server` has the
    disk."""

    url: str
    partition: Partition
    disk: Disk
    server: Server | None = None
    orders: tuple[str, ...] = ()
    workers: list[Worker] = field(default_factory=list)

    def begin(self) -> Worker:
        """A process that has claimed and commits without end."""
        worker = Worker(self.url, self.partition, None if self.server else self.disk.enter)
        self.workers.append(worker)
        for order in (*self.orders, f"claim token-{len(self.workers)}"):
            assert worker.ask(order) == "done"
        worker.tell("loop")
        return worker

    def acknowledged(self, worker: Worker, lines: list[str]) -> int:
        """The last commit that it heard of, once the power is off."""
        if self.server:
            self.server.kill9()
            lines += list(iter(worker.heard, "PersistenceError"))
        lines += worker.kill9()
        return int([line for line in lines if line.isdigit()][-1])

    def lose_power(self) -> None:
        self.disk.lose_power()
        if self.server:
            self.server.restart()

    @contextmanager
    def store(self) -> Iterator[Store]:
        """For this process. What it does to a SQLite file counts as synced: its disk is not watched."""
        store = open_store(self.url)
        yield store
        store.close()
        if self.server is None:
            self.disk.keep()

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill9()
        self.disk.close()


@pytest.fixture
def site(tmp_path: Path, own_server: OwnServer, partition: Partition) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(backend: str, durable: bool = True) -> Site:
        if backend == "sqlite":
            made.append(on_sqlite(tmp_path, partition, durable))
        else:
            args = SETTINGS[backend] + (() if durable else NOT_DURABLE[backend])
            made.append(on_a_server(own_server(KINDS[backend], args=args), partition))
        return made[-1]

    yield make
    for store in made:
        store.close()


def on_sqlite(folder: Path, partition: Partition, durable: bool) -> Site:
    data = folder / "data"
    data.mkdir()
    url = f"sqlite:///{data}/state.db"
    opened(url).close()
    disk = disk_or_skip(data, folder / "kept")
    disk.keep()
    return Site(url, partition, disk, orders=() if durable else ("synchronous normal",))


def on_a_server(server: Server, partition: Partition) -> Site:
    """It is started once without the disk: what it is when it has ended in order is what the disk has at first."""
    opened(server.url).close()
    server.stop()
    disk = disk_or_skip(server.place.data, server.place.root / "kept")
    disk.keep()
    server.enter = disk.enter
    server.restart()
    return Site(server.url, partition, disk, server)


each_backend = pytest.mark.parametrize("backend", ["sqlite", "redis", "postgresql"])


@each_backend
def test_a_power_loss_takes_no_commit_that_was_acknowledged_and_no_part_of_one(
    site: Callable[..., Site], backend: str
) -> None:
    place = site(backend)
    for _ in range(2):
        worker, before = place.begin(), place.disk.synced
        acknowledged = place.acknowledged(worker, [worker.heard() for _ in range(20)])
        assert place.disk.synced >= before + 20
        place.lose_power()
        with place.store() as store:
            assert acknowledged <= consistent(store, place.partition) <= acknowledged + 1


@each_backend
def test_a_store_that_acknowledges_before_it_syncs_loses_commits_with_the_power(
    site: Callable[..., Site], backend: str
) -> None:
    place = site(backend, durable=False)
    worker = place.begin()
    acknowledged = place.acknowledged(worker, [worker.heard() for _ in range(20)])
    place.lose_power()
    with place.store() as store:
        view = store.read(place.partition)
        assert view is None or view.claim.offset < acknowledged


@each_backend
def test_nothing_is_acknowledged_whose_sync_failed_and_that_is_said(site: Callable[..., Site], backend: str) -> None:
    place = site(backend)
    worker = place.begin()
    lines = [worker.heard() for _ in range(5)]
    place.disk.fail()
    lines += list(iter(worker.heard, "PersistenceError"))
    assert place.disk.failed > 0
    if place.server:
        wait_until(lambda: SAID[backend] in place.server.tail(40), 10, "what the server says")
    else:
        assert worker.ask("claim once-more") == "PersistenceError"
    acknowledged = int(lines[-1])
    worker.kill9()
    if place.server:
        place.server.kill9()
    place.disk.fail(False)
    place.lose_power()
    with place.store() as store:
        assert acknowledged <= consistent(store, place.partition) <= acknowledged + 1
    again = place.begin()
    assert int(again.heard()) in (acknowledged + 1, acknowledged + 2)


def test_after_a_sync_that_failed_once_a_sqlite_store_goes_on_and_keeps_what_it_acknowledges(
    site: Callable[..., Site],
) -> None:
    place = site("sqlite")
    worker = place.begin()
    first = worker.heard()
    place.disk.fail()
    last = int([first, *iter(worker.heard, "PersistenceError")][-1])
    place.disk.fail(False)
    assert worker.ask("claim once-more") == "done"
    worker.tell("loop")
    lines = [worker.heard() for _ in range(20)]
    assert int(lines[0]) in (last + 1, last + 2)
    acknowledged = place.acknowledged(worker, lines)
    place.lose_power()
    with place.store() as store:
        assert acknowledged <= consistent(store, place.partition) <= acknowledged + 1
