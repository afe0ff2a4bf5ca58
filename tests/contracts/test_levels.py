"""The level says what durability a store really gives: every precondition set wrong on a real server changes it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from sluicegate.connectors import open_store
from sluicegate.connectors.redis import connection
from sluicegate.connectors.sql import sqlite
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import PersistenceError, SystemNotReady
from tests.contracts.given import opened
from tests.servers import Proxy, Server
from tests.servers.valkey import Valkey
from tests.waiting import wait_until

SET_WRONG = [
    ({"appendfsync": "everysec"}, "appendfsync is everysec, not always"),
    ({"appendfsync": "no"}, "appendfsync is no, not always"),
    ({"appendonly": "no"}, "appendonly is no, not yes"),
    ({"no-appendfsync-on-rewrite": "yes"}, "no-appendfsync-on-rewrite is yes, not no"),
    (
        {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"},
        "maxmemory-policy is allkeys-lru: keys may be evicted; set noeviction",
    ),
]


@pytest.fixture
def server(own_server: Callable[..., Server]) -> Server:
    return own_server(Valkey)


@pytest.fixture
def admin(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        yield client


def test_memory_is_volatile(ns: str) -> None:
    assert opened(f"memory://{ns}").level().name == "volatile"


def test_a_redis_that_syncs_always_and_evicts_nothing_is_durable(server: Server, admin: redis.Redis) -> None:
    store = opened(server.url)
    assert store.level() == Level("durable", ())
    admin.config_set("maxmemory", "100mb")
    assert store.level() == Level("durable", ())
    admin.config_set("maxmemory", "0")
    admin.config_set("maxmemory-policy", "allkeys-lru")
    assert store.level() == Level("durable", ())


@pytest.mark.parametrize(("settings", "reason"), SET_WRONG)
def test_one_wrong_setting_makes_redis_lossy(
    server: Server, admin: redis.Redis, settings: dict[str, str], reason: str
) -> None:
    store = opened(server.url)
    for name, value in settings.items():
        admin.config_set(name, value)
    assert store.level() == Level("lossy", (reason,))


def test_all_wrong_settings_are_named_at_once(server: Server, admin: redis.Redis) -> None:
    admin.config_set("appendfsync", "no")
    admin.config_set("no-appendfsync-on-rewrite", "yes")
    assert len(opened(server.url).level().reasons) == 2


def test_the_settings_of_redis_are_read_in_one_round_trip(server: Server, proxy: Callable[..., Proxy]) -> None:
    far = proxy(server.url)
    store = opened_without_migrating(far.url)
    assert store.level().name == "durable"  # connects
    far.delay(0.3)
    began = time.monotonic()
    assert store.level().name == "durable"
    assert 0.6 <= time.monotonic() - began < 1.2, "two round trips take 1.2 s"


def test_a_replica_is_lossy(server: Server, admin: redis.Redis, own_server: Callable[..., Server]) -> None:
    master = own_server(Valkey)
    admin.replicaof("127.0.0.1", master.port)
    wait_until(lambda: admin.info("replication")["role"] == "slave", what="the role of a replica")
    assert "role is slave, not master" in opened_without_migrating(server.url).level().reasons


def opened_without_migrating(url: str) -> Store:
    from sluicegate.connectors import open_store

    return open_store(url)


@pytest.mark.parametrize(
    ("forbidden", "reason"), [("-config|get", "appendonly cannot be read"), ("-info", "INFO cannot be read")]
)
def test_what_cannot_be_read_counts_as_weaker(server: Server, admin: redis.Redis, forbidden: str, reason: str) -> None:
    admin.execute_command("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", forbidden)
    level = opened(server.url.replace("redis://", "redis://worker:secret@")).level()
    assert level.name == "lossy"
    assert any(reason in text for text in level.reasons)


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({"role": "master", "redis_version": "6.0.16"}, "version is 6.0.16, below 6.2"),
        ({"role": "master", "redis_version": "5.0.14"}, "version is 5.0.14, below 6.2"),
        ({"role": "master"}, "version is 0, below 6.2"),
        (
            {"role": "master", "redis_version": "7.2", "aof_last_write_status": "err"},
            "the last write of the append-only file failed",
        ),
    ],
)
def test_what_no_server_here_can_show_is_judged_from_its_info(info: dict[str, str], reason: str) -> None:
    assert list(connection._weak_server(info)) == [reason]


def test_a_redis_from_6_2_on_is_recent_enough() -> None:
    for version in ("6.2.0", "6.10.1", "7.0.15", "10.0.0"):
        assert list(connection._weak_server({"role": "master", "redis_version": version})) == []


def test_a_redis_that_is_not_there_has_no_level(server: Server) -> None:
    store = opened(server.url)
    server.kill9()
    with pytest.raises(PersistenceError):
        store.level()


def test_a_sqlite_file_on_a_local_disk_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "filesystem", lambda _path: "ext4")
    assert opened(f"sqlite:///{tmp_path}/state.db").level() == Level("durable", ())


def test_asking_for_the_level_of_a_sqlite_store_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "filesystem", lambda _path: "nfs4")
    level = open_store(f"sqlite:///{tmp_path}/state.db").level()
    assert not (tmp_path / "state.db").exists()
    assert level == opened(f"sqlite:///{tmp_path}/state.db").level()


def test_a_sqlite_store_that_is_not_there_is_named_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(SystemNotReady, match=r"there is no store .*state\.db: restore it .*`sluicegate migrate`"):
        open_store(f"sqlite:///{tmp_path}/state.db").partitions("app")
    with pytest.raises(SystemNotReady, match=r"the folder of the store .*state\.db does not exist"):
        open_store(f"sqlite:///{tmp_path}/absent/state.db").level()


@pytest.mark.parametrize(
    ("name", "setting", "reason"),
    [
        ("synchronous", "normal", "synchronous is 1, below 2 (full)"),
        ("journal_mode", "delete", "journal_mode is delete, not wal"),
    ],
)
def test_one_wrong_setting_makes_sqlite_lossy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, setting: str, reason: str
) -> None:
    monkeypatch.setattr(sqlite, "filesystem", lambda _path: "ext4")
    store = opened(f"sqlite:///{tmp_path}/state.db")
    store._product.file.connection(create=False).execute(f"pragma {name} = {setting}")
    assert store.level() == Level("lossy", (reason,))


@pytest.mark.parametrize(
    ("kind", "name"), [("ext4", "durable"), ("nfs4", "lossy"), ("cifs", "lossy"), ("tmpfs", "lossy"), (None, "durable")]
)
def test_the_file_system_counts_and_an_unknown_one_is_only_said(kind: str | None, name: str) -> None:
    level = sqlite.judged("wal", 2, kind)
    assert level.name == name
    assert bool(level.reasons) == (kind != "ext4")


def test_the_file_system_is_that_of_the_innermost_mount(tmp_path: Path) -> None:
    inner, other = tmp_path / "a b", tmp_path / "a b c"
    inner.mkdir()
    mounts = tmp_path / "mounts"
    lines = [
        "/dev/x / ext4 rw 0 0",
        f"x {str(inner).replace(' ', chr(92) + '040')} nfs4 rw 0 0",
        f"x {other} tmpfs rw 0 0",
        "x / overlay rw 0 0",
    ]
    mounts.write_text("\n".join(lines))
    assert sqlite.filesystem(inner / "state.db", mounts) == "nfs4"
    assert sqlite.filesystem(tmp_path / "state.db", mounts) == "overlay"
    assert sqlite.filesystem(tmp_path / "state.db", tmp_path / "absent") is None


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no /dev/shm here")
def test_a_file_in_shared_memory_is_lossy_and_usable() -> None:
    assert sqlite.filesystem(Path("/dev/shm/state.db")) == "tmpfs"
