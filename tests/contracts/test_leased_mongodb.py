"""What the leased contracts are on MongoDB alone: its write concern, its indexes, its errors and what it wakes up."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pymongo
import pymongo.errors
import pytest
from pymongo.write_concern import WriteConcern

from sluicegate.connectors import open_store
from sluicegate.connectors.mongodb import connection
from sluicegate.connectors.mongodb.buffer import MongoBuffer
from sluicegate.connectors.mongodb.migrations import STEPS
from sluicegate.connectors.mongodb.outbox import MongoOutbox
from sluicegate.connectors.mongodb.steps import StepRunner
from sluicegate.connectors.mongodb.timeouts import MongoTimeouts
from sluicegate.streams.contracts.leased_values import Entry, Gate, SealedBatch, Snapshot, Timeout, TimeoutBatch
from sluicegate.streams.contracts.messages import OutboxMessage, Outcome
from sluicegate.streams.contracts.options import STANDARD
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SystemNotReady
from tests.contracts.given import opened
from tests.contracts.mongodb import server  # noqa: F401
from tests.servers import Server

ENTRY = Entry("m1", "c1", data=b"1")
MESSAGE = OutboxMessage("t", b"k", b"v", id="m1")
UNACKNOWLEDGED = {"w": 0}


def timeout() -> Timeout:
    return Timeout(uuid4(), "t", datetime.now(UTC) - timedelta(seconds=1))


@pytest.fixture
def url(mongodb_url: str, ns: str) -> str:
    """A database of the test's own, in which nothing is."""
    return mongodb_url.replace("/sluicegate?", f"/{ns}?")


@pytest.fixture
def data(url: str) -> Any:
    with pymongo.MongoClient(url) as client:
        yield client.get_default_database()
        client.drop_database(client.get_default_database().name)


def refuses_w0(url: str, make: Callable[[StepRunner], Any]) -> None:
    """In the URL, and on a database whose options were changed after it."""
    with pytest.raises(ConfigurationError, match="w=0"):
        open_store(f"{url}&w=0")
    client = connection.client(url)
    changed = connection.database(client).with_options(write_concern=WriteConcern(**UNACKNOWLEDGED))
    with pytest.raises(ConfigurationError, match="w=0"):
        make(StepRunner(client, changed))
    make(StepRunner(client, connection.database(client)))
    client.close()


def test_079_a_client_that_asks_for_no_acknowledgement_makes_no_buffer(url: str) -> None:
    refuses_w0(url, lambda steps: MongoBuffer(steps, None))


def test_120_a_client_that_asks_for_no_acknowledgement_makes_no_timeout_store(url: str) -> None:
    refuses_w0(url, lambda steps: MongoTimeouts(steps, STANDARD.timeouts))


def test_nor_does_it_make_an_outbox(url: str) -> None:
    refuses_w0(url, lambda steps: MongoOutbox(steps, STANDARD.outbox))


def names_of(data: Any) -> dict[str, list[str]]:
    """The fields of each index but that of `_id`, by collection."""
    results = {}
    for name in sorted(data.list_collection_names()):
        indexes = data[name].index_information().values()
        results[name] = sorted(
            " ".join(field for field, _ in index["key"]) for index in indexes if index["key"] != [("_id", 1)]
        )
    return results


def test_080_indexes_come_with_migrate_and_that_they_are_there_is_asked_once_for_each_store(
    url: str, data: Any
) -> None:
    store: Any = open_store(url)
    for call in (
        lambda: store.buffer.insert("b", [ENTRY]),
        lambda: store.timeouts.count(),
        lambda: store.outbox.count(),
    ):
        with pytest.raises(SystemNotReady, match="sluicegate migrate"):
            call()
    assert data.list_collection_names() == []
    open_store(url).migrate()
    assert store.buffer.insert("b", [ENTRY]) == (1, 0)
    data.sluicegate_step.delete_one({"_id": 2})
    assert store.buffer.insert("b", [ENTRY]) == (0, 1)
    with pytest.raises(SystemNotReady):
        open_store(url).buffer.insert("b", [ENTRY])  # type: ignore[attr-defined]


def test_081_an_index_of_other_options_is_left_alone_and_any_other_failure_is_tried_again(
    server: Server,  # noqa: F811
    ns: str,
) -> None:
    url = server.url.replace("/sluicegate?", f"/{ns}?")
    with pymongo.MongoClient(url) as client:
        data = client.get_default_database()
        data.sluicegate_buffer.create_index([("name", 1), ("key", 1)])
        store: Any = open_store(url)
        fail = {"failCommands": ["createIndexes"], "errorCode": 8}
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fail)
        with pytest.raises(PersistenceError):
            store.migrate()
        with pytest.raises(SystemNotReady):
            store.buffer.insert("b", [ENTRY])
        assert len(store.migrate()) == len(STEPS) - 1
        assert "unique" not in data.sluicegate_buffer.index_information()["name_1_key_1"]
        assert len(names_of(data)["sluicegate_buffer"]) == 4
    assert [store.buffer.insert("b", [ENTRY]) for _ in range(2)] == [(1, 0), (0, 1)]


def test_an_index_of_outbox_ids_that_is_not_unique_is_no_schema_to_start_on(url: str, data: Any) -> None:
    data.sluicegate_message.create_index("ids")
    with pytest.raises(PersistenceError):
        open_store(url).migrate()
    data.sluicegate_message.drop_indexes()
    assert len(open_store(url).migrate()) == len(STEPS) - 1


def test_082_of_many_cold_starts_at_once_all_succeed_and_each_index_is_there_once(url: str, data: Any) -> None:
    store: Any = open_store(url)
    results: list[Any] = []
    gate = threading.Barrier(6)

    def start(number: int) -> None:
        gate.wait(20)
        store.migrate()
        results.append(store.buffer.insert("b", [Entry(f"m{number}", "c")]))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [(1, 0)] * 6
    assert all(len(fields) == len(set(fields)) for fields in names_of(data).values())


def test_083_the_buffer_has_indexes_for_its_order_its_keys_correlations_groups_and_leases(url: str, data: Any) -> None:
    opened(url)
    names = names_of(data)
    assert names["sluicegate_buffer"] == ["name correlation", "name group batch _id type", "name key", "token"]
    assert data.sluicegate_buffer.index_information()["name_1_key_1"]["unique"] is True
    assert names["sluicegate_buffer_group"] == ["name deadline", "name since"]
    assert data.sluicegate_buffer_key.index_information()["until_1"]["expireAfterSeconds"] == 0
    store: Any = opened(url)
    store.buffer.insert("b", [Entry(f"m{number}", "c") for number in range(3)])
    plan = data.command("explain", {"find": "sluicegate_buffer", "filter": {"name": "b", "key": "m1"}})
    assert plan["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == "name_1_key_1"


def test_158_the_outbox_has_indexes_for_lanes_ages_ids_and_what_was_sent(url: str, data: Any) -> None:
    opened(url)
    names = names_of(data)
    assert names["sluicegate_message"] == [
        "ids",
        "state dispatched_at",
        "state lane numbered first",
        "state lanes",
        "state oldest",
        "token",
    ]
    assert data.sluicegate_message.index_information()["ids_1"]["unique"] is True
    assert names["sluicegate_timeout"] == ["app due _id", "app scheduled", "due _id", "owner"]
    assert names["sluicegate_lock"] == []  # read by its _id, which is the lane


def test_240_migrate_makes_and_never_removes_renames_or_rewrites(url: str, data: Any) -> None:
    data.mine.insert_one({"_id": 1})
    data["sluicegate_old"].insert_one({"_id": 1, "what": "of another version"})
    data.sluicegate_buffer.insert_one({"_id": 1, "what": "of another version", "name": "x", "key": "y"})
    data.sluicegate_buffer.create_index("what", name="mine")
    store = open_store(url)
    assert len(store.migrate(dry_run=True)) == len(STEPS)
    assert sorted(data.list_collection_names()) == ["mine", "sluicegate_buffer", "sluicegate_old"]
    assert len(store.migrate()) == len(STEPS)
    for name in ("mine", "sluicegate_old", "sluicegate_buffer"):
        assert data[name].count_documents({"_id": 1}) == 1
    assert "mine" in data.sluicegate_buffer.index_information()


def every_operation_of_the_buffer(store: Any, batch: Any) -> list[Callable[[], Any]]:
    buffer = store.buffer
    snapshot = Snapshot(("1",), (ENTRY,), 0, "t", None)
    return [
        lambda: buffer.insert("b", [ENTRY]),
        lambda: buffer.insert_and_seal("b", [ENTRY], Gate(1)),
        lambda: buffer.position("b", "t", 0),
        lambda: buffer.get_snapshot("b"),
        lambda: buffer.remove_snapshot("b", snapshot),
        lambda: buffer.release_snapshot("b", snapshot),
        lambda: buffer.due("b", Gate(1)),
        lambda: buffer.complete("b", batch),
        lambda: buffer.release("b", batch),
        lambda: buffer.renew("b", "t"),
        lambda: buffer.renew_all("b", ["t"]),
        lambda: buffer.get_data("b"),
        lambda: buffer.count("b"),
        lambda: buffer.count_resolved("b"),
        lambda: list(buffer.iter_raw("b")),
        lambda: buffer.remove_one("b", "c1"),
        lambda: buffer.remove_all("b"),
    ]


def every_operation_of_timeouts_and_outbox(store: Any) -> list[Callable[[], Any]]:
    timeouts, outbox = store.timeouts, store.outbox
    lane = outbox.claim(0, "t", 1)
    return [
        lambda: timeouts.insert(timeout()),
        timeouts.get_batch,
        lambda: timeouts.remove(uuid4()),
        lambda: timeouts.release(uuid4()),
        lambda: timeouts.emit(TimeoutBatch((timeout(),), "o", None, None)),
        timeouts.reap_stale_leases,
        timeouts.next_due,
        lambda: timeouts.cancel(uuid4()),
        lambda: timeouts.reschedule(uuid4(), datetime.now(UTC)),
        timeouts.find,
        timeouts.count,
        lambda: outbox.add(None, [MESSAGE], require_transaction=False),
        outbox.lanes,
        lambda: outbox.set_lanes(3),
        lambda: outbox.claim(0, "t", 1),
        lambda: outbox.claim_any(1),
        lambda: outbox.mark(lane, [Outcome("m1", "dispatched")]),
        lambda: outbox.release(lane),
        outbox.pending_age,
        outbox.count,
        lambda: outbox.sweep(timedelta(0)),
        outbox.find,
        lambda: outbox.attempts_of("m1"),
        outbox.requeue,
        lambda: outbox.drop(["m1"]),
    ]


def test_084_what_the_server_refuses_is_a_persistence_error_with_its_cause_in_every_operation(server: Server) -> None:  # noqa: F811
    store: Any = opened(server.url)
    buffer, outbox = store.buffer, store.outbox
    [batch] = buffer.insert_and_seal("b", [ENTRY], Gate(1)).batches
    calls = [*every_operation_of_the_buffer(store, batch), *every_operation_of_timeouts_and_outbox(store)]
    failing = ["find", "aggregate", "insert", "update", "delete", "findAndModify"]
    with pymongo.MongoClient(server.url) as client:
        client.admin.command(
            "configureFailPoint", "failCommand", mode="alwaysOn", data={"failCommands": failing, "errorCode": 8}
        )
        for call in calls:
            with pytest.raises(PersistenceError) as raised:
                call()
            assert isinstance(raised.value.__cause__, pymongo.errors.PyMongoError)
        assert outbox.wait(0.1) is False
        client.admin.command("configureFailPoint", "failCommand", mode="off")
    assert isinstance(batch, SealedBatch)
    assert buffer.complete("b", batch) == 1


def test_085_fields_of_others_are_tolerated_and_missing_ones_read_as_free(url: str, data: Any) -> None:
    store: Any = opened(url)
    due = timeout()
    store.buffer.insert("b", [ENTRY, Entry("m2", "c2", data=b"2")])
    store.timeouts.insert(due)
    store.outbox.add(None, [MESSAGE], require_transaction=False)
    for name in ("buffer", "timeout", "message", "lock", "meta"):
        data[f"sluicegate_{name}"].update_many({}, {"$set": {"of_a_newer_version": {"x": [1]}}})
    data.sluicegate_buffer.update_many({}, {"$unset": {"type": 1, "group": 1, "headers": 1}})
    snapshot = store.buffer.get_snapshot("b", 1)
    assert [entry.idempotency_key for entry in snapshot.entries] == ["m1"]
    data.sluicegate_buffer.update_many({}, {"$unset": {"token": 1, "expires_at": 1}})
    assert [entry.idempotency_key for entry in store.buffer.get_snapshot("b").entries] == ["m1", "m2"]
    batch = store.timeouts.get_batch()
    assert list(batch) == [due]
    data.sluicegate_timeout.update_many({}, {"$unset": {"locked_until": 1, "locked_by": 1}})
    assert list(again := store.timeouts.get_batch()) == [due]
    assert (store.timeouts.emit(batch), store.timeouts.emit(again), store.outbox.count()) == (0, 1, 2)


def test_086_the_database_is_sluicegate_unless_the_url_names_one(server: Server, ns: str) -> None:  # noqa: F811
    for path, name in (("/?", "sluicegate"), (f"/{ns}?", ns)):
        store: Any = opened(server.url.replace("/sluicegate?", path))
        store.buffer.insert("b", [ENTRY])
        with pymongo.MongoClient(server.url) as client:
            assert client[name].sluicegate_buffer.count_documents({}) == 1
            assert name in client.list_database_names()


def test_a_row_that_cannot_be_read_is_a_persistence_error_without_its_content(url: str, data: Any) -> None:
    store: Any = opened(url)
    store.buffer.insert("b", [ENTRY])
    store.outbox.add(None, [MESSAGE], require_transaction=False)
    data.sluicegate_buffer.update_one({}, {"$unset": {"correlation": 1}, "$set": {"data": b"hush"}})
    data.sluicegate_message.update_one({}, {"$set": {"rows": b"hush"}})
    for call in (lambda: store.buffer.get_data("b"), lambda: store.outbox.find()):
        with pytest.raises(PersistenceError, match="cannot be read") as raised:
            call()
        assert "hush" not in str(raised.value)
