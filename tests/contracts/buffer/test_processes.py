"""Many callers are operating-system processes."""

from typing import Any

import pytest

from tests.contracts.buffer.given import all_keys, entries, of, sent
from tests.contracts.buffer.worker import together
from tests.contracts.conftest import SHARED_BETWEEN_PROCESSES

both = pytest.mark.parametrize("backend", SHARED_BETWEEN_PROCESSES, indirect=True)


@both
def test_of_processes_that_insert_the_same_keys_each_key_makes_one_row(store: Any, store_url: str, ns: str) -> None:
    stored = together(store_url, ns, *["same 40"] * 3)
    assert sum(stored) == 40
    assert sorted(all_keys(store.buffer, ns)) == sorted(f"m{number}" for number in range(40))


@both
def test_of_processes_that_fill_a_group_exactly_one_is_told_of_each_batch(store: Any, store_url: str, ns: str) -> None:
    sealed_batches = [
        batch
        for batches in together(store_url, ns, *(f"seal {100 * number} 15" for number in range(3)))
        for batch in batches
    ]
    assert len(sealed_batches) == len({id for id, _ in sealed_batches}) == 9
    rows = [row for _, ids in sealed_batches for row in ids]
    assert len(rows) == len(set(rows)) == store.buffer.count(ns) == 45
    assert all(len(ids) == 5 for _, ids in sealed_batches)


@both
def test_processes_never_share_a_row_of_their_snapshots(store: Any, store_url: str, ns: str) -> None:
    store.buffer.insert(ns, entries(*range(100)))
    rows = [row for taken in together(store_url, ns, *["snapshot 10"] * 3) for row in taken]
    assert len(rows) == len(set(rows)) == 90


@both
def test_processes_that_complete_what_is_due_send_once_for_each_batch(store: Any, store_url: str, ns: str) -> None:
    batches = store.buffer.insert_and_seal(ns, entries(*range(60)), of(5)).batches
    for batch in batches:
        store.buffer.release(ns, batch)
    completed = [id for ids in together(store_url, ns, *["work"] * 2) for id in ids]
    assert sorted(completed) == sorted(batch.id for batch in batches)
    assert sent(store, ns) == sorted(f"{ns}-{batch.id}" for batch in batches)
