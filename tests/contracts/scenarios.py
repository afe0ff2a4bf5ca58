"""What protections must hold. The suite runs each on the real store; the twins run the same on a store without the
protection."""

from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.sql import state as sql_state
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Claim, Partition
from sluicegate.streams.errors import Fenced, PersistenceError, SluicegateError
from tests.contracts.given import claimed, everything, full, opened, picture, rows, seen


def error_of(action: Callable[[], object]) -> type[SluicegateError] | None:
    """The class of what it raises, None when it does not."""
    try:
        action()
    except SluicegateError as error:
        return type(error)
    return None


def an_older_claim_is_fenced(store: Store, partition: Partition) -> None:
    zombie = claimed(store, partition)
    claimed(store, partition)
    before = picture(store, partition)
    raised = error_of(lambda: store.commit(zombie, Changes(9, entries=[b"late"], outbox=rows(1))))
    assert picture(store, partition) == before
    assert raised is Fenced


def one_claim_commits_once(store: Store, partition: Partition) -> None:
    claim = claimed(store, partition)
    store.commit(claim, Changes(5, entries=[b"a"], outbox=rows(1)))
    before = picture(store, partition)
    raised = error_of(lambda: store.commit(claim, Changes(9, entries=[b"b"], outbox=rows(2))))
    assert picture(store, partition) == before
    assert raised is Fenced


def only_reported_rows_go(store: Store, partition: Partition) -> None:
    """The reports of 7, 2, 3 and 4 came before those of 1, 5 and 6."""
    claim = store.commit(claimed(store, partition), Changes(1, outbox=rows(1, 2, 3, 4, 5, 6, 7, 8)))
    store.commit(claim, Changes(1, dispatched=[2, 3, 4, 7]))
    assert [row.number for row in store.pending(partition, 0, 100)] == [1, 5, 6, 8]


def a_failing_commit_changes_nothing(
    store: Store, partition: Partition, spoil: Callable[[], None], repair: Callable[[], None]
) -> None:
    """`spoil` makes some later part of a commit fail, `repair` ends that."""
    claim = store.commit(claimed(store, partition), full())
    before = picture(store, partition)
    spoil()
    raised = error_of(lambda: store.commit(claim, everything()))
    repair()
    assert picture(store, partition) == before
    assert raised is PersistenceError
    store.commit(claim, everything())
    assert seen(store, partition).claim.offset == 50


def a_reader_overtaken_by_a_commit_sees_one_picture(url: str, partition: Partition, patch: pytest.MonkeyPatch) -> None:
    """SQLite: another connection commits between the statements of a read."""
    writer, reader = opened(url), opened(url)
    claim = claimed(writer, partition)
    claim = writer.commit(claim, Changes(1, entries=[b"before"], keep_from=claim.last + 1))
    read_claim = sql_state._claim

    def overtaken(*row: Any) -> Claim:
        writer.commit(claim, Changes(2, entries=[b"after"], keep_from=claim.last + 1))
        return read_claim(*row)

    with patch.context() as patched:
        patched.setattr(sql_state, "_claim", overtaken)
        view = seen(reader, partition)
    assert (view.claim.offset, view.entries) == (1, [b"before"])
    assert seen(reader, partition).entries == [b"after"]
