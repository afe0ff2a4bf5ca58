"""A Redis that was cut off in the middle of its file, or stands still longer than we wait."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from sluicegate.connectors.redis import addresses
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced, PersistenceError
from tests.contracts.given import claimed, opened, picture, rows
from tests.contracts.scenarios import error_of
from tests.servers import Server
from tests.servers.valkey import Valkey

OwnServer = Callable[..., Server]


def log_of(server: Server) -> Path:
    """The part of the append-only file that grows."""
    [path] = server.place.data.rglob("*.incr.aof")
    return path


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_a_commit_whose_end_is_torn_off_the_file_is_gone_as_a_whole(
    own_server: OwnServer, partition: Partition, share: float
) -> None:
    server = own_server(Valkey)
    store = opened(server.url)
    claim = store.commit(claimed(store, partition), Changes(5, entries=[b"a", b"b"], outbox=rows(1, 2)))
    before, whole = picture(store, partition), log_of(server).stat().st_size
    store.commit(claim, Changes(9, entries=[b"c" * 1000, b"d"], keep_from=2, outbox=rows(3, 4, 5), dispatched=[1]))
    assert picture(store, partition) != before
    server.kill9()
    grown = log_of(server).stat().st_size
    with log_of(server).open("r+b") as file:
        file.truncate(whole + max(1, int((grown - whole) * share)))
    server.restart()
    assert picture(store, partition) == before
    again = claimed(store, partition)
    assert (again.offset, again.last) == (5, 2)
    assert store.commit(again, Changes(9, outbox=rows(3))).offset == 9
    store.close()


def test_a_server_that_stands_still_is_an_unknown_outcome_and_the_next_claim_shows_it(
    own_server: OwnServer, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "REPLY_SECONDS", 0.4)
    server = own_server(Valkey, args=("--enable-debug-command", "yes"))
    store = opened(server.url)
    claim = claimed(store, partition)
    asleep = threading.Event()

    def sleep() -> None:
        with redis.Redis.from_url(server.url) as client:
            asleep.set()
            client.execute_command("DEBUG", "SLEEP", "3")

    def commits() -> None:
        nonlocal claim
        while True:
            claim = store.commit(claim, Changes(claim.offset + 1))

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    asleep.wait(10)
    assert error_of(commits) is PersistenceError
    sleeper.join(20)
    again = claimed(store, partition)
    assert again.offset in (claim.offset, claim.offset + 1)
    assert store.commit(again, Changes(again.offset + 1)).offset == again.offset + 1
    assert error_of(lambda: store.commit(claim, Changes(claim.offset + 1))) is Fenced
    store.close()
