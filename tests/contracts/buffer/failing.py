"""Stores whose system goes away under a test."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contracts.leasing import Clock, decoders, leased_store
from tests.servers import Proxy

FAILING = pytest.mark.parametrize("backend", ["sqlite", "redis", "mongodb", "postgresql", "mariadb"], indirect=True)
"""Backends that can be cut off: not memory, and not a cluster, whose nodes give addresses of their own."""
SECONDS = 0.3


@contextmanager
def cut_off(
    url: str,
    clock: Clock,
    proxy: Callable[..., Proxy],
    patch: pytest.MonkeyPatch,
    prepare: Callable[[Any], Any],
    silent: bool = False,
) -> Iterator[Any]:
    """A store on which `prepare` was called and whose system is gone: another writer holds the file, connections are
    refused, or (`silent`) what is asked is never answered."""
    for module in ("sql.server", "redis.addresses", "mongodb.connection"):
        patch.setattr(f"sluicegate.connectors.{module}.REPLY_SECONDS", 1)
    if url.startswith("sqlite:"):
        patch.setattr("sluicegate.connectors.sql.sqlite.BUSY_SECONDS", SECONDS)
        store = leased_store(url, clock, decoders())
        prepare(store)
        other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("begin immediate")
        yield store
        other.close()
    else:
        wire = proxy(url)
        store = leased_store(url.replace(f":{urlsplit(url).port}", f":{wire.port}"), clock, decoders())
        prepare(store)
        if silent:
            wire.drop_replies()
        else:
            wire.refuse()
            wire.reset()
        yield store
    store.close()
