"""Redis sessions: queued commands in one MULTI and EXEC with the commit, and what Redis refuses, early or late."""

from collections.abc import Callable
from typing import Any

import pytest
import redis

from sluicegate.connectors.redis import addresses, unit
from sluicegate.connectors.redis.state import _keys
from sluicegate.connectors.sessions import RedisSession
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, Fenced, NotCommitted, PersistenceError
from tests.contracts.application import Books
from tests.contracts.given import claimed, opened, picture, rows, seen
from tests.contracts.scenarios import error_of
from tests.contracts.test_lost_replies import one_lost_reply
from tests.servers import Proxy, Server
from tests.servers.valkey import Valkey

redis_only = pytest.mark.parametrize("backend", ["redis", "redis-cluster"], indirect=True)
cluster_only = pytest.mark.parametrize("backend", ["redis-cluster"], indirect=True)
PAYLOAD = "hush"


@pytest.fixture
def books(store_url: str, partition: Partition) -> Books:
    return Books(store_url, partition)


def nothing_but(store: Store, books: Books, before: object) -> bool:
    return books.lines() == [] and picture(store, books.partition) == before


# -- refused before anything runs
# ----------------------------------------------------------------------------------------

ENDS: dict[str, Callable[[Any], object]] = {
    "execute": lambda pipeline: pipeline.execute(),
    "watch": lambda pipeline: pipeline.watch("x"),
    "discard": lambda pipeline: pipeline.discard(),
    "exec": lambda pipeline: pipeline.execute_command("exec"),
    "multi": lambda pipeline: pipeline.execute_command("MULTI"),
    "select": lambda pipeline: pipeline.select(1),
    "client": lambda pipeline: pipeline.client_setname("x"),
}


@redis_only
@pytest.mark.parametrize("how", ENDS)
def test_the_work_cannot_end_the_transaction_or_change_the_connection(store: Store, books: Books, how: str) -> None:
    def work(session: RedisSession) -> Changes:
        books.enter(session, "line")
        ENDS[how](session.pipeline)
        return Changes(5)

    claim = claimed(store, books.partition)
    before = picture(store, books.partition)
    with pytest.raises(ConfigurationError, match="return from the handler to commit"):
        store.commit_with(claim, work)
    assert nothing_but(store, books, before)
    assert store.commit(claim, Changes(1)).offset == 1


@redis_only
def test_a_with_block_of_the_work_keeps_what_it_queued(store: Store, books: Books) -> None:
    def work(session: RedisSession) -> Changes:
        with session.pipeline as pipeline:
            pipeline.rpush(session.key(books.name), "line")
        return Changes(5)

    store.commit_with(claimed(store, books.partition), work)
    assert books.lines() == ["line"]


@redis_only
def test_a_command_that_no_redis_takes_is_not_committed(store: Store, books: Books) -> None:
    def work(session: RedisSession) -> Changes:
        books.enter(session, "line")
        session.pipeline.execute_command("RPUSH", session.key(PAYLOAD))
        return Changes(5, entries=[b"e"], outbox=rows(1))

    claim = claimed(store, books.partition)
    before = picture(store, books.partition)
    with pytest.raises(
        NotCommitted, match="RPUSH was refused before anything ran: wrong number of arguments"
    ) as caught:
        store.commit_with(claim, work)
    assert PAYLOAD not in str(caught.value)
    assert nothing_but(store, books, before)
    assert store.commit(claim, Changes(1)).offset == 1


@cluster_only
@pytest.mark.parametrize("name", ["users:7", "publish"])
def test_keys_that_lie_elsewhere_in_the_cluster_are_refused_before_anything_is_sent(
    store: Store, books: Books, name: str
) -> None:
    def work(session: RedisSession) -> Changes:
        books.enter(session, "line")
        session.pipeline.publish("channel", "x") if name == "publish" else session.pipeline.set(name, "x")
        return Changes(5)

    claim = claimed(store, books.partition)
    before = picture(store, books.partition)
    with pytest.raises(ConfigurationError, match=r"name them with session\.key"):
        store.commit_with(claim, work)
    assert nothing_but(store, books, before)


def test_a_server_without_memory_takes_nothing_of_a_unit_of_work(
    own_server: Callable[..., Server], partition: Partition
) -> None:
    nothing_without_memory(own_server(Valkey, args=("--maxmemory-policy", "noeviction")).url, partition)


def test_without_the_command_that_asks_for_memory_half_a_unit_lands(
    own_server: Callable[..., Server], partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = unit.Pipeline.pipeline_execute_command

    def harmless(self: Any, *args: Any, **options: Any) -> Any:
        return queue(self, *(("HGET", *args[1:3]) if args[0] == "HSET" and args[2] == "token" else args), **options)

    monkeypatch.setattr(unit.Pipeline, "pipeline_execute_command", harmless)
    with pytest.raises(AssertionError):
        nothing_without_memory(own_server(Valkey, args=("--maxmemory-policy", "noeviction")).url, partition)


def nothing_without_memory(url: str, partition: Partition) -> None:
    """The work only deletes: that needs no memory."""
    store, client = opened(url), redis.Redis.from_url(url)
    client.set("theirs", "x")
    claim = claimed(store, partition)
    before = picture(store, partition)

    def work(session: RedisSession) -> Changes:
        session.pipeline.delete("theirs")
        return Changes(5, entries=[b"e"])

    client.config_set("maxmemory", 1)
    raised = error_of(lambda: store.commit_with(claim, work))
    client.config_set("maxmemory", 0)
    assert (client.get("theirs"), picture(store, partition)) == (b"x", before)
    assert raised is PersistenceError


# -- refused while the others run
# ----------------------------------------------------------------------------------------


@redis_only
def test_a_command_that_redis_refuses_inside_exec_is_said_loudly_and_the_rest_has_landed(
    store: Store, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    def work(session: RedisSession) -> Changes:
        books.enter(session, "first")
        session.pipeline.hset(session.key(books.name), PAYLOAD, PAYLOAD)
        books.enter(session, "last")
        return Changes(5, entries=[b"e"])

    with pytest.raises(PersistenceError, match=r"landed without 1 of the 3 commands .* HSET \(") as caught:
        store.commit_with(claimed(store, books.partition), work)
    assert type(caught.value) is PersistenceError
    assert (PAYLOAD in str(caught.value), PAYLOAD in caplog.text, "HSET" in caplog.text) == (False, False, True)
    assert books.lines() == ["first", "last"]
    assert claimed(store, books.partition).offset == 5


@pytest.mark.parametrize("backend", ["redis"], indirect=True)
def test_scripts_of_the_application_run_inside_the_unit(store_url: str, books: Books) -> None:
    store = opened(store_url)

    def work(session: RedisSession) -> Changes:
        push = redis.Redis.from_url(store_url).register_script("return redis.call('RPUSH', KEYS[1], ARGV[1])")
        push(keys=[session.key(books.name)], args=["by script"], client=session.pipeline)
        return Changes(5)

    claim = claimed(store, books.partition)
    redis.Redis.from_url(store_url).script_flush()
    store.commit_with(claim, work)
    assert books.lines() == ["by script"]


# -- fenced, lost, damaged
# -----------------------------------------------------------------------------------------------


@redis_only
def test_an_owner_claimed_away_inside_its_work_is_fenced_and_nothing_of_it_lands(
    store: Store, store_url: str, books: Books
) -> None:
    claimed_away(store, store_url, books)


@redis_only
def test_without_the_watch_both_of_a_claimed_away_owner_and_the_new_one_land(
    store: Store, store_url: str, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit.Pipeline, "watch", lambda self, *keys: True)
    with pytest.raises(AssertionError):
        claimed_away(store, store_url, books)


def claimed_away(store: Store, url: str, books: Books) -> None:
    owners: list[Any] = []

    def work(session: RedisSession) -> Changes:
        books.enter(session, "late")
        owners.append(claimed(opened(url), books.partition))
        return Changes(5)

    raised = error_of(lambda: store.commit_with(claimed(store, books.partition), work))
    assert (books.lines(), owners[0].offset) == ([], -1)
    assert raised is Fenced
    store.commit_with(owners[0], lambda session: (books.enter(session, "owner"), Changes(5))[1])
    assert books.lines() == ["owner"]


@redis_only
def test_keys_of_ours_that_are_damaged_keep_the_work_from_running(store: Any, books: Books) -> None:
    claim = store.commit(claimed(store, books.partition), Changes(1, entries=[b"e1", b"e2"]))
    store._server().lpop(_keys(books.partition)[1])
    called: list[int] = []
    with pytest.raises(PersistenceError, match="not what its claim row says"):
        store.commit_with(claim, lambda session: (called.append(1), Changes(2))[1])
    assert called == []


@pytest.mark.parametrize("when", ["work", "exec"])
def test_a_wire_that_breaks_is_an_outage_and_never_a_fence(
    own_server: Callable[..., Server],
    proxy: Callable[..., Proxy],
    partition: Partition,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    """redis-py says WatchError of a connection that breaks under a watch, although the EXEC may have landed."""
    monkeypatch.setattr(addresses, "REPLY_SECONDS", 2.0)
    server = own_server(Valkey)
    wire, books = proxy(server.url), Books(server.url, partition)
    store = opened(wire.url)
    claim = claimed(store, partition)
    lost: list[Any] = []

    def work(session: RedisSession) -> Changes:
        books.enter(session, "line")
        if when == "work":
            wire.reset()
        else:
            lost.append(one_lost_reply(wire))
            lost[0].__enter__()
        return Changes(5)

    raised = error_of(lambda: store.commit_with(claim, work))
    for record in lost:
        record.__exit__(None, None, None)
    landed = claimed(store, partition).offset == 5
    assert raised is PersistenceError
    assert (landed, books.lines()) == ((True, ["line"]) if when == "exec" else (False, []))
    assert seen(store, partition).claim.offset == (5 if landed else -1)
