"""Two owners are two operating-system processes, and a crash is a kill -9."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from tests.contracts.conftest import SHARED_BETWEEN_PROCESSES
from tests.contracts.given import claimed, opened, picture, seen
from tests.contracts.worker import Worker
from tests.servers import Server
from tests.servers.valkey import Valkey

both = pytest.mark.parametrize("backend", SHARED_BETWEEN_PROCESSES, indirect=True)


@pytest.fixture
def worker(partition: Partition) -> Iterator[Callable[[str], Worker]]:
    made: list[Worker] = []

    def start(url: str) -> Worker:
        made.append(Worker(url, partition))
        return made[-1]

    yield start
    for process in made:
        if process.process.poll() is None:
            process.kill9()


@both
def test_of_two_processes_that_claim_at_once_exactly_one_commits(
    store: Store, store_url: str, partition: Partition, worker: Callable[[str], Worker]
) -> None:
    two = worker(store_url), worker(store_url)
    for round_ in range(1, 11):
        for number, process in enumerate(two):
            process.tell(f"claim token-{round_}-{number}")
        assert [process.heard() for process in two] == ["done", "done"]
        for process in two:
            process.tell(f"commit {round_}")
        assert sorted(process.heard() for process in two) == ["Fenced", "done"]
        view = seen(store, partition)
        assert (view.claim.version, view.claim.offset, view.claim.last, view.unsent) == (round_, round_, round_, 2)


def consistent(store: Store, partition: Partition) -> int:
    """The offset of the row, when entries and outbox are those that go with it."""
    view = seen(store, partition)
    offset = view.claim.offset
    assert list(view.entries) == [b"%d" % n * 1000 for n in range(max(1, offset - 6), offset + 1)]
    assert (view.claim.last, view.claim.version, view.claim.number) == (offset, offset, 2 * offset + 1)
    assert [row.number for row in store.pending(partition, 0, 100)] == [2 * offset, 2 * offset + 1]
    return offset


@both
def test_a_process_killed_while_it_commits_leaves_whole_commits_and_all_acknowledged_ones(
    store: Store, store_url: str, partition: Partition, worker: Callable[[str], Worker]
) -> None:
    for round_ in range(4):
        process = worker(store_url)
        assert process.ask(f"claim token-{round_}") == "done"
        process.tell("loop")
        lines = [process.heard() for _ in range(20)] + process.kill9()
        acknowledged = int([line for line in lines if line.isdigit()][-1])
        assert acknowledged <= consistent(store, partition) <= acknowledged + 1


def killed_inside_a_commit(url: str, partition: Partition, worker: Callable[[str], Worker], *orders: str) -> None:
    store, process = opened(url), worker(url)
    for order in (*orders, "claim t", "commit 1", "stall insert into sluicegate_outbox"):
        assert process.ask(order) == "done"
    before = picture(store, partition)
    assert process.ask("commit 2") == "stalled"
    process.kill9()
    assert picture(store, partition) == before
    assert store.commit(claimed(store, partition), Changes(5)).offset == 5


def test_a_process_killed_inside_a_sqlite_commit_changed_nothing(
    tmp_path: Path, partition: Partition, worker: Callable[[str], Worker]
) -> None:
    killed_inside_a_commit(f"sqlite:///{tmp_path}/state.db", partition, worker)


def test_without_its_transaction_a_process_killed_inside_a_sqlite_commit_leaves_half_of_it(
    tmp_path: Path, partition: Partition, worker: Callable[[str], Worker]
) -> None:
    with pytest.raises(AssertionError):
        killed_inside_a_commit(f"sqlite:///{tmp_path}/state.db", partition, worker, "no-transactions")


def test_a_redis_killed_under_commits_keeps_whole_ones_and_all_that_it_acknowledged(
    own_server: Callable[..., Server], partition: Partition, worker: Callable[[str], Worker]
) -> None:
    server = own_server(Valkey)
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
        assert int(lines[-2]) <= consistent(store, partition) <= int(lines[-2]) + 1
