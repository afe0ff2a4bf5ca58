"""MongoDB as a server of the tests: crash, pause, transactions, and a set of three."""

import pymongo
import pytest

from tests.servers import MongoDB
from tests.servers.mongodb import gather
from tests.waiting import wait_until


def test_a_killed_mongodb_comes_back_with_its_transactions(own_server):
    server = own_server(MongoDB)
    first = server.pid
    with pymongo.MongoClient(server.url, serverSelectionTimeoutMS=300) as client:
        numbers = client.get_default_database().create_collection("numbers")
        with client.start_session() as session, session.start_transaction():
            numbers.insert_many([{"_id": 1}, {"_id": 2}], session=session)
        server.kill9()
        with pytest.raises(pymongo.errors.ConnectionFailure):
            client.admin.command("ping")
        server.restart()
        assert [document["_id"] for document in numbers.find().sort("_id")] == [1, 2]
    assert server.pid != first


def test_a_paused_mongodb_answers_again_after_resume(own_server):
    server = own_server(MongoDB)
    with pymongo.MongoClient(server.url, timeoutMS=300) as client:
        client.admin.command("ping")
        server.pause()
        with pytest.raises(pymongo.errors.PyMongoError):
            client.admin.command("ping")
        server.resume()
        with pymongo.timeout(10):
            assert client.admin.command("ping")["ok"] == 1


def test_a_set_of_three_has_a_new_primary_soon_after_the_old_one_was_killed_and_takes_it_back(own_server):
    nodes = [own_server(MongoDB, alone=False) for _ in range(3)]
    with pymongo.MongoClient(gather(nodes), timeoutMS=10_000) as client:
        numbers = client.get_default_database().get_collection(
            "numbers", write_concern=pymongo.WriteConcern("majority", j=True)
        )
        numbers.insert_one({"_id": 1})
        first = client.primary
        killed = next(node for node in nodes if node.port == first[1])
        killed.kill9()
        numbers.insert_one({"_id": 2})
        assert client.primary != first
        killed.restart()
        wait_until(lambda: first in client.secondaries, 30, "the killed node as a secondary")


def test_the_shared_mongodb_is_a_replica_set(mongodb_url):
    with pymongo.MongoClient(mongodb_url) as client:
        assert client.admin.command("hello")["setName"]
