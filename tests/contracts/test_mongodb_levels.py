"""What a MongoDB must be, and what its level says when it is not: every precondition set wrong on a real server."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymongo
import pytest

from sluicegate.connectors import open_store
from sluicegate.connectors.mongodb import durability, migrations
from sluicegate.streams.contracts.values import Changes, Level, Partition
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SystemNotReady
from tests.contracts.given import claimed, opened, rows, seen
from tests.servers import MongoDB, Server
from tests.servers.mongodb import gather, initiate
from tests.waiting import wait_until

WRONG_IN_THE_URL = [
    ("w=1", ["the URL asks for w=1, not majority"]),
    ("w=2", ["the URL asks for w=2, not majority"]),
    ("journal=false", ["the URL asks for journal=false: commits are acknowledged before they are on disk"]),
    (
        "w=1&journal=false",
        [
            "the URL asks for w=1, not majority",
            "the URL asks for journal=false: commits are acknowledged before they are on disk",
        ],
    ),
]


def test_a_replica_set_is_durable_with_what_we_ask_for_by_ourselves(mongodb_url: str) -> None:
    for more in (
        "",
        "&w=majority",
        "&journal=true",
        "&w=majority&journal=true",
        "&readPreference=secondary",
        "&retryWrites=false",
    ):
        assert opened(mongodb_url + more).level() == Level("durable", ()), more


@pytest.mark.parametrize(("options", "reasons"), WRONG_IN_THE_URL)
def test_a_weaker_write_concern_in_the_url_makes_it_lossy(mongodb_url: str, options: str, reasons: list[str]) -> None:
    assert open_store(f"{mongodb_url}&{options}").level() == Level("lossy", tuple(reasons))


def test_a_url_that_wants_no_acknowledgement_is_refused(mongodb_url: str) -> None:
    with pytest.raises(ConfigurationError, match="w=0"):
        open_store(f"{mongodb_url}&w=0")


def test_a_server_without_a_replica_set_is_refused_with_what_to_do(
    own_server: Callable[..., Server], partition: Partition
) -> None:
    store = open_store(own_server(MongoDB, replicates=False).url)
    for call in (store.migrate, lambda: store.migrate(dry_run=True), store.level):
        with pytest.raises(SystemNotReady, match=r"not a replica set.*--replSet.*rs\.initiate\(\)"):
            call()


def test_a_server_that_left_its_replica_set_is_refused_at_the_commit(
    own_server: Callable[..., Server], partition: Partition
) -> None:
    """As after a restart without --replSet: the collections are there."""
    server = own_server(MongoDB, replicates=False)
    store = open_store(server.url)
    with pymongo.MongoClient(server.url) as client:
        migrations.apply(client.sluicegate, "name")
    claim = claimed(store, partition)
    with pytest.raises(SystemNotReady, match="not a replica set"):
        store.commit(claim, Changes(1))


def test_a_set_whose_majority_does_not_wait_for_its_journal_is_lossy(own_server: Callable[..., Server]) -> None:
    server = own_server(MongoDB, alone=False)
    initiate([("127.0.0.1", server.port)], 1000, writeConcernMajorityJournalDefault=False)
    with pymongo.MongoClient(server.url) as client:
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], what="a primary")
    reason = "writeConcernMajorityJournalDefault is false: a majority may forget what it acknowledged"
    assert opened(server.url).level() == Level("lossy", (reason,))


def test_a_secondary_is_lossy_and_its_set_is_not(own_server: Callable[..., Server]) -> None:
    nodes = [own_server(MongoDB, alone=False) for _ in range(3)]
    url = gather(nodes)
    assert opened(url).level() == Level("durable", ())
    with pymongo.MongoClient(url) as client:
        wait_until(lambda: len(client.secondaries) == 2, what="two secondaries")
        port = min(client.secondaries)[1]
    reason = "the server takes no writes: it is a secondary or read-only"
    assert open_store(next(node for node in nodes if node.port == port).url).level() == Level("lossy", (reason,))


def test_a_server_that_keeps_its_data_in_memory_is_volatile(own_server: Callable[..., Server]) -> None:
    server = own_server(
        MongoDB, alone=False, args=("--storageEngine", "ephemeralForTest", "--setParameter", "enableTestCommands=1")
    )
    initiate([("127.0.0.1", server.port)], 1000, writeConcernMajorityJournalDefault=False)
    with pymongo.MongoClient(server.url) as client:
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], what="a primary")
    level = open_store(server.url).level()
    assert (level.name, level.reasons[-1]) == ("volatile", "the storage engine ephemeralForTest keeps nothing on disk")


def test_a_user_who_may_only_read_and_write_can_work_and_what_he_cannot_read_counts_as_weaker(
    own_server: Callable[..., Server], tmp_path: Path, partition: Partition
) -> None:
    key = tmp_path / "key"
    key.write_text("akeyforthenodesofonetest")
    key.chmod(0o600)
    server = own_server(MongoDB, args=("--auth", "--keyFile", str(key)))
    with pymongo.MongoClient(server.url) as client:
        client.admin.command("createUser", "root", pwd="root", roles=["root"])
    with pymongo.MongoClient(server.url, username="root", password="root", authSource="admin") as client:
        client.sluicegate.command("createUser", "worker", pwd="hush", roles=[{"role": "readWrite", "db": "sluicegate"}])
    store = opened(server.url.replace("mongodb://", "mongodb://worker:hush@"))
    store.commit(claimed(store, partition), Changes(1, entries=[b"e"], outbox=rows(1)))
    store.commit(claimed(store, partition), Changes(2, dispatched=[1]))
    assert (seen(store, partition).claim.offset, seen(store, partition).unsent) == (2, 0)
    level = store.level()
    assert level.name == "lossy"
    assert [reason for reason in level.reasons if "cannot be read" in reason] == list(level.reasons) != []
    for wrong in ("", "worker:hushed@"):
        with pytest.raises(PersistenceError) as caught:
            open_store(server.url.replace("mongodb://", f"mongodb://{wrong}")).migrate()
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("version", ["4.2.24", "4.0.28", "3.6.0-rc1"])
def test_what_no_server_here_can_show_is_judged_from_its_version(version: str) -> None:
    assert list(durability.weak_server({"isWritablePrimary": True}, version)) == [f"version is {version}, below 4.4"]


def test_a_version_from_4_4_on_is_recent_enough() -> None:
    for version in ("4.4.0", "5.0.1", "6.0.5", "8.0.4-ent", "10.0.0"):
        assert list(durability.weak_server({"isWritablePrimary": True}, version)) == []
    assert len(list(durability.weak_server({"isWritablePrimary": True, "readOnly": True}, "8.0.0"))) == 1


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://u:hush@host:port/db",
        "mongodb://u:hush@h/db?w=majority&nonsense=1",
        "mongodb://u:hush@",
        "mongodb://u:hush@h/a%24b",
        "mongodb://u:hush@h/?timeoutMS=abc",
        "mongodb+srv://u:hush@host:27017/db",
        "mongodb://u:hu%sh@h/db",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the MongoDB URL cannot be read: mongodb://") as caught:
        open_store(url)
    assert "hu" not in str(caught.value)


def test_a_certificate_file_that_is_not_there_is_named_as_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"certificate file .* cannot be read: No such file") as caught:
        open_store(f"mongodb://u:hush@h/?tls=true&tlsCAFile={tmp_path}/absent.pem")
    assert "hush" not in str(caught.value)


def test_opening_connects_to_nothing() -> None:
    open_store("mongodb://host.invalid:1/db").close()
    open_store("mongodb+srv://cluster.host.invalid/db?tls=true").close()


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name
        for name in sys.modules
        if name.split(".")[0] == "pymongo" or name.startswith("sluicegate.connectors.mongodb.")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(ConfigurationError) as caught:
        open_store("mongodb://user:hush@host")
    assert str(caught.value) == 'the MongoDB driver is not installed: pip install "sluicegate[mongodb]"'


def test_a_step_that_was_killed_half_way_is_finished_by_the_next_run(
    mongodb_url: str, ns: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, create = open_store(mongodb_url.replace("/sluicegate?", f"/{ns}?")), migrations._create

    class Killed(BaseException):
        """As if the process ended there."""

    def until_the_outbox(data: Any, name: str) -> None:
        if name == migrations.OUTBOX:
            raise Killed
        create(data, name)

    monkeypatch.setattr(migrations, "_create", until_the_outbox)
    with pytest.raises(Killed):
        store.migrate()
    monkeypatch.undo()
    with pytest.raises(SystemNotReady, match="run `sluicegate migrate`"):
        claimed(store, partition)
    assert store.migrate() == [name for name, *_ in migrations.STEPS]
    assert store.commit(claimed(store, partition), Changes(1, outbox=rows(1))).offset == 1


def test_a_new_step_upgrades_live_state(
    mongodb_url: str, ns: str, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = mongodb_url.replace("/sluicegate?", f"/{ns}?")
    store = opened(url)
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"e"], outbox=rows(1)))
    second = ("an index by app", lambda data: data[migrations.CLAIM].create_index("app"))
    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, second))
    newer = open_store(url)
    assert (newer.migrate(dry_run=True), newer.migrate(), newer.migrate()) == (
        ["an index by app"],
        ["an index by app"],
        [],
    )
    assert store.commit(claim, Changes(2)).offset == 2
    assert "app_1" in store._data[migrations.CLAIM].index_information()  # type: ignore[attr-defined]


def test_data_ahead_of_this_program_are_refused(mongodb_url: str, ns: str) -> None:
    store = opened(mongodb_url.replace("/sluicegate?", f"/{ns}?"))
    store._data[migrations.STEP].insert_one({"_id": 99, "name": "future"})  # type: ignore[attr-defined]
    for dry_run in (True, False):
        with pytest.raises(SystemNotReady, match="step 99"):
            store.migrate(dry_run)
