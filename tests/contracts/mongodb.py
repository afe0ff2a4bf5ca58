"""A MongoDB of the test's own behind a proxy of its own; both files of its failures import these fixtures."""

from collections.abc import Callable, Iterator

import pytest

from sluicegate.connectors.mongodb import connection
from sluicegate.connectors.mongodb.state import MongoStore
from tests.contracts.given import opened
from tests.servers import MongoDB, Proxy, Server

TESTED = ("--setParameter", "enableTestCommands=1")


@pytest.fixture
def server(own_server: Callable[..., Server]) -> Server:
    return own_server(MongoDB, args=TESTED)


@pytest.fixture
def wire(server: Server, proxy: Callable[..., Proxy]) -> Proxy:
    return proxy(server.url)


@pytest.fixture
def store(server: Server, wire: Proxy) -> Iterator[MongoStore]:
    made = opened(server.url.replace(str(server.port), str(wire.port)))
    assert isinstance(made, MongoStore)
    yield made
    made.close()


def short(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(connection, "REPLY_SECONDS", 1)
