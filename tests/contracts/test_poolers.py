"""A real PgBouncer before PostgreSQL: what shares connections between clients is refused, what does not is used."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from sluicegate.connectors import open_store
from sluicegate.connectors.sql import pooler
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import PersistenceError
from tests.contracts.given import claimed, opened, rows, seen
from tests.servers import PgBouncer, Postgres, Server

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
SHARED = "gives each transaction another connection (PgBouncer: pool_mode = transaction or statement)"
FILE = """\
app: pooled
kafka: {{bootstrap.servers: embedded}}
store: {store}
dead_letters: dead
agents: {{a: {{from: in, aggregate: {{count: 2}}, to: {{topic: out}}}}}}
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    from tests.servers.shared import own_folder

    server = Server(Postgres(), own_folder()).start()
    yield server
    server.destroy()


SHARING = {
    "transaction": {"mode": "transaction"},
    "statement": {"mode": "statement"},
    "round robin": {"mode": "transaction", "args": ["server_round_robin = 1", "min_pool_size = 5"]},
}


@pytest.mark.parametrize("kind", SHARING)
def test_a_pooler_that_shares_connections_is_refused_by_every_command(
    kind: str, postgres: Server, own_server: Callable[..., Server], tmp_path: Path
) -> None:
    url = own_server(PgBouncer, server=postgres.port, **SHARING[kind]).url
    file = tmp_path / "app.yaml"
    file.write_text(FILE.format(store=url))
    opened(postgres.url).close()
    for command in (["migrate"], ["check", "--connect"], ["run"]):
        done = subprocess.run(
            [str(SLUICEGATE), command[0], str(file), *command[1:]],
            env=os.environ | {"HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        text = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, SHARED in text) == (3, True), (command, text)
        assert "set pool_mode = session for this database, or let the store's URL name PostgreSQL itself" in text


def test_it_is_found_while_other_clients_keep_its_connections_busy(
    postgres: Server, own_server: Callable[..., Server]
) -> None:
    url = own_server(PgBouncer, server=postgres.port).url
    over = threading.Event()

    def busy() -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as link:
            while not over.is_set():
                link.execute("select pg_sleep(0.001)")

    threads = [threading.Thread(target=busy, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            with (
                closing(open_store(url)) as store,
                pytest.raises(PersistenceError, match="connection pooler") as raised,
            ):
                store.level()
            assert raised.value.permanent
    finally:
        over.set()
        for thread in threads:
            thread.join()


class InTurn:
    """A client's connection behind a pooler that gives each transaction the next one of its connections."""

    def __init__(self, backends: Iterator[int]) -> None:
        self.info = SimpleNamespace(backend_pid=-1)
        self._backends = backends

    def execute(self, _query: bytes, prepare: bool) -> "InTurn":
        return self

    def fetchone(self) -> tuple[int]:
        return (next(self._backends),)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("size", range(1, 8))
def test_it_is_found_whatever_the_number_of_connections_that_it_gives_in_turn(size: int) -> None:
    link: Any = InTurn(itertools.cycle(range(size)))
    with pytest.raises(PersistenceError, match="connection pooler"):
        pooler.check(link, lambda: link)


@pytest.mark.parametrize("size", [1, 20])
def test_a_pooler_whose_connections_stay_with_their_client_is_used(
    size: int, postgres: Server, own_server: Callable[..., Server], partition: Partition
) -> None:
    """With one connection in the pool a further client waits for the first one."""
    url = own_server(PgBouncer, server=postgres.port, mode="session", args=[f"default_pool_size = {size}"]).url
    with closing(opened(url)) as store:
        claim = claimed(store, partition)
        for number in range(5):
            claim = store.commit(claim, Changes(number + 1, entries=[b"e"], outbox=rows(number + 1)))
        assert seen(store, partition).claim.version == claim.version
        assert store.level().name == "durable"


def test_without_the_check_the_commands_would_begin(
    postgres: Server, own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of the tests above."""
    url = own_server(PgBouncer, server=postgres.port).url
    monkeypatch.setattr(pooler, "check", lambda *_: True)
    with closing(open_store(url)) as store:
        assert store.level().name == "durable"
