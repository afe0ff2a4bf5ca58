"""A disk without room: what did not fit changes nothing and is said, what was acknowledged stays, and room is all it needs to go on."""

from pathlib import Path
from typing import cast

from connectors.sql.state import SqliteStore
from streams.errors import PersistenceError
from streams.values import Changes, Partition
from tests.contracts.given import claimed, opened, rows, seen


def test_a_full_sqlite_disk_refuses_the_commit_and_nothing_else(tmp_path: Path, partition: Partition) -> None:
    """As SQLite sees it: its own limit of pages gives the error of a full disk. Any error closes the connection, which ends the limit."""
    store = cast(SqliteStore, opened(f"sqlite:///{tmp_path}/state.db"))
    claim, said = claimed(store, partition), ""
    store._database.connection(create=False).execute("pragma max_page_count = 400")
    entries = [bytes([number]) * 1_000_000 for number in range(10)]
    while not said:
        try:
            claim = store.commit(claim, Changes(claim.last, entries=[entries[claim.last]], outbox=rows(claim.last + 1)))
        except PersistenceError as error:
            said = str(error)
    assert "full" in said
    assert 0 < claim.last < len(entries)
    again = claimed(store, partition)
    assert (again.offset, again.last) == (claim.offset, claim.last)
    assert list(seen(store, partition).entries) == entries[: claim.last]
    assert [row.number for row in store.pending(partition, 0, 100)] == list(range(1, claim.last + 1))
    assert store.commit(again, Changes(claim.last, entries=entries[:1])).last == claim.last + 1
