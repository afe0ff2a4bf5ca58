"""A disk without room, one that may only be read, a process without descriptors: what did not get in changes nothing
and is said, what was acknowledged stays, and going on needs nothing but the end of it."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from sluicegate.connectors.sql.state import SqlStore
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import PersistenceError
from tests.contracts.given import claimed, opened, picture, rows, seen
from tests.contracts.scenarios import error_of


def test_a_full_sqlite_disk_refuses_the_commit_and_nothing_else(tmp_path: Path, partition: Partition) -> None:
    """As SQLite sees it: its own limit of pages gives the error of a full disk. Any error closes the connection, which
    ends the limit."""
    store = cast(SqlStore, opened(f"sqlite:///{tmp_path}/state.db"))
    claim, message = claimed(store, partition), ""
    store._product.file.connection(create=False).execute("pragma max_page_count = 400")
    entries = [bytes([number]) * 1_000_000 for number in range(10)]
    while not message:
        try:
            claim = store.commit(claim, Changes(claim.last, entries=[entries[claim.last]], outbox=rows(claim.last + 1)))
        except PersistenceError as error:
            message = str(error)
    assert "full" in message
    assert 0 < claim.last < len(entries)
    again = claimed(store, partition)
    assert (again.offset, again.last) == (claim.offset, claim.last)
    assert list(seen(store, partition).entries) == entries[: claim.last]
    assert [row.number for row in store.pending(partition, 0, 100)] == list(range(1, claim.last + 1))
    assert store.commit(again, Changes(claim.last, entries=entries[:1])).last == claim.last + 1


def test_a_sqlite_file_that_may_only_be_read_refuses_the_commit_and_says_so(
    tmp_path: Path, partition: Partition
) -> None:
    """As SQLite sees it, like the full disk: who is root may write whatever the modes say."""
    store = cast(SqlStore, opened(f"sqlite:///{tmp_path}/state.db"))
    claim = store.commit(claimed(store, partition), Changes(3, entries=[b"a"], outbox=rows(1)))
    before = picture(store, partition)
    store._product.file.connection(create=False).execute("pragma query_only = 1")
    with pytest.raises(PersistenceError, match="readonly"):
        store.commit(claim, Changes(4, entries=[b"b"]))
    assert picture(store, partition) == before
    assert store.commit(claimed(store, partition), Changes(4, entries=[b"b"])).offset == 4


@contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("backend", ["sqlite", "redis", "postgresql"], indirect=True)
def test_a_process_without_descriptors_is_told_and_goes_on_when_it_has_some(
    store_url: str, partition: Partition
) -> None:
    store = opened(store_url)
    claim = store.commit(claimed(store, partition), Changes(3, entries=[b"a"], outbox=rows(1)))
    before = picture(store, partition)
    store.close()
    with no_descriptors():
        assert error_of(lambda: store.commit(claim, Changes(4))) is PersistenceError
    assert picture(store, partition) == before
    assert store.commit(claimed(store, partition), Changes(4)).offset == 4
    store.close()
