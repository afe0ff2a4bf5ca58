"""TLS and passwords of the stores, with certificates of our own: what is right works, what is wrong is refused at once
and in words."""

from collections.abc import Callable

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import NotAuthenticated
from tests.integration.secured.systems import RIGHT, STORES, WRONG, Authority, Store
from tests.servers import Server
from tests.servers.certificates import authority
from tests.servers.shared import own_folder
from tests.waiting import wait_until

KINDS = ("authority", "host", "password", "expired")
WORDS = {
    "authority": "certificate in c|local issuer",
    "host": "127.0.0.1",
    "password": "refuses user or password",
    "expired": "has expired",
}


@pytest.fixture(scope="module")
def signed() -> Authority:
    return authority(own_folder() / "own")


@pytest.fixture
def wrong(signed: Authority, store: Store) -> Callable[[str], str]:
    """The store's URL with one thing wrong."""

    def make(kind: str) -> str:
        if kind == "expired":
            store.expire()
        if kind == "authority":
            return store.url(authority(own_folder() / "another").cert)
        host = "127.0.0.1" if kind == "host" else "localhost"
        return store.url(signed.cert, WRONG if kind == "password" else RIGHT, host)

    return make


@pytest.fixture(params=STORES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(name: str, own_server: Callable[..., Server], signed: Authority) -> Store:
    return STORES[name](own_server, signed)


def committed(url: str) -> int:
    """One commit of a partition of its own."""
    store, partition = open_store(url), Partition("tls", "a", "in", 0)
    try:
        store.migrate()
        return store.commit(store.claim(partition, "token", "member"), Changes(7, entries=[b"entry"])).offset
    finally:
        store.close()


def test_a_store_is_used_over_tls_and_only_over_tls_that_can_be_trusted(
    store: Store, signed: Authority, wrong: Callable[[str], str]
) -> None:
    assert committed(store.url(signed.cert)) == 7
    for kind in KINDS:
        url = wrong(kind)
        with pytest.raises(NotAuthenticated, match=WORDS[kind]) as caught:
            wait_until(lambda url=url, kind=kind: committed(url) and kind != "expired", 5)  # a reload takes its moment
        text = str(caught.value)
        assert text.startswith(store.scheme.removesuffix("s")), text
        assert "the store's URL" in text
        assert "canary" not in text
    assert committed(store.trusting()) == 7  # nothing but the checks was in the way
