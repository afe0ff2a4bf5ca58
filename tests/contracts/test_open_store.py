"""Opening by URL: drivers only when needed, one line when something cannot be, and never a password."""

import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, PersistenceError
from tests.contracts.given import claimed, opened, rows


@pytest.mark.parametrize("url", ["oracle://u:hush@h", "hush", "", "://hush", "HUSH://x", "hush:hush@host"])
def test_an_unknown_scheme_lists_the_known_ones_and_quotes_no_secret(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"memory://.* redis://.* redis\+cluster://.* sqlite://") as caught:
        open_store(url)
    assert "hush" not in str(caught.value).lower()
    assert "\n" not in str(caught.value)


def test_162_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name == "redis" or name.startswith(("redis.", "sluicegate.connectors.redis."))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError) as caught:
        open_store("redis://user:hush@host")
    assert str(caught.value) == 'the Redis driver is not installed: pip install "sluicegate[redis]"'


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hush@host:port/0",
        "rediss://u:hush@host:99999999/0",
        "redis://u:hush@h/0?socket_timeout=abc",
        "redis://u:hush@h/0?nonsense=1",
    ],
)
def test_a_redis_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the Redis URL cannot be read") as caught:
        open_store(url)
    assert "hush" not in str(caught.value)


def test_a_refused_password_is_an_error_without_the_password(redis_url: str) -> None:
    with pytest.raises(PersistenceError) as caught:
        open_store(redis_url.replace("redis://", "redis://user:hush@")).migrate()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite://rel.db", "sqlite:///:memory:", "sqlite:///x.db?mode=ro"]
)
def test_a_sqlite_url_that_cannot_be_is_refused_with_the_right_form(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///relative/path\.db"):
        open_store(url)


def test_relative_sqlite_paths_are_relative_to_the_folder_and_absolute_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "sub dir").mkdir()
    open_store("sqlite:///sub%20dir/a.db", folder=str(tmp_path)).migrate()
    open_store(f"sqlite:///{tmp_path}/b%3F.db", folder="/nonexistent").migrate()
    assert (tmp_path / "sub dir" / "a.db").exists()
    assert (tmp_path / "b?.db").exists()


def test_opening_connects_to_nothing() -> None:
    open_store("redis://host.invalid:1/0").close()
    open_store("sqlite:////nonexistent/folder/a.db").close()


def test_a_memory_url_is_one_store_for_the_whole_process(ns: str) -> None:
    assert open_store(f"memory://{ns}") is open_store(f"memory://{ns}")
    assert open_store(f"memory://{ns}") is not open_store(f"memory://{ns}-other")


def test_errors_of_commits_quote_no_payload(redis_url: str, partition: Partition) -> None:
    import redis

    from sluicegate.connectors.redis.state import _keys

    store = opened(redis_url)
    claim = claimed(store, partition)
    redis.Redis.from_url(redis_url).set(_keys(partition)[1], "planted")
    with pytest.raises(PersistenceError) as caught:
        store.commit(claim, Changes(1, entries=[b"hush-entry"], outbox=rows(1)))
    assert "hush" not in str(caught.value)


def test_only_its_user_may_read_a_new_sqlite_file_and_the_files_beside_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(open_store(f"sqlite:///{tmp_path}/state.db")) as store:
            store.migrate()
            made = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert made == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
