"""Files that have keys and values of records: other users of the machine read nothing."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.operations.dead.dead_archive import write_archive


@pytest.fixture(autouse=True)
def open_mask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_the_files_of_sqlite_are_for_their_user_alone(tmp_path: Path) -> None:
    store = open_store("sqlite:///state.db", str(tmp_path))
    store.migrate()
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    store.close()
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}


def test_an_archive_of_dead_letters_is_for_its_user_alone(tmp_path: Path) -> None:
    write_archive(tmp_path / "dead.jsonl", [], [], ())
    assert (tmp_path / "dead.jsonl").stat().st_mode & 0o777 == 0o600
