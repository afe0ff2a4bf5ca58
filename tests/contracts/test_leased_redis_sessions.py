"""Redis sessions that queue messages, and commits that schedule."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis

from sluicegate.connectors.redis import unit
from sluicegate.connectors.redis.scripts_leased import PREFIX
from sluicegate.connectors.redis.state import RedisStore
from sluicegate.connectors.sessions import RedisSession
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError, NotCommitted, PersistenceError
from tests.contracts.given import claimed, rows
from tests.contracts.leased_redis import dump, made, messages, timeouts
from tests.contracts.scenarios import error_of
from tests.servers import Server
from tests.servers.valkey import Valkey

cluster_only = pytest.mark.parametrize("backend", ["redis-cluster"], indirect=True)


@pytest.fixture
def url(own_server: Callable[..., Server]) -> str:
    """A server of the test's own: the outbox and the timeouts of a server are one."""
    return own_server(Valkey).url


@pytest.fixture
def client(url: str) -> Any:
    return redis.Redis.from_url(url)


@pytest.fixture
def opened(url: str) -> RedisStore:
    return made(url)


# -- transactions
# ----------------------------------------------------------------------------------------------------------------


def test_a_message_and_a_row_of_the_application_land_together_or_not_at_all(opened: Any, client: Any) -> None:
    with opened.transaction() as session:
        session.pipeline.set(session.key("order"), "placed")
        opened.outbox.add(session, messages(2))
        assert (client.get(session.key("order")), opened.outbox.count()) == (None, 0)
    assert (client.get(session.key("order")), opened.outbox.count()) == (b"placed", 2)
    before = dump(client)
    with pytest.raises(ZeroDivisionError):
        transacted(opened, lambda session: session.pipeline.set(session.key("order"), "paid") and 1 / 0)
    assert dump(client) == before


def transacted(store: Any, write: Callable[[RedisSession], object]) -> None:
    """A message, and what `write` does."""
    with store.transaction() as session:
        store.outbox.add(session, [OutboxMessage("topic")])
        write(session)


def test_a_command_that_no_redis_takes_undoes_the_whole_transaction(opened: Any, client: Any) -> None:
    before = dump(client)
    with pytest.raises(NotCommitted, match="RPUSH was refused before anything ran"):
        transacted(opened, lambda session: session.pipeline.execute_command("RPUSH", session.key("list")))
    assert dump(client) == before


def test_a_server_without_memory_takes_nothing_of_a_transaction_that_only_deletes(
    own_server: Callable[..., Server],
) -> None:
    url = own_server(Valkey, args=("--maxmemory-policy", "noeviction")).url
    nothing_without_memory(made(url), redis.Redis.from_url(url))


def test_without_the_command_that_asks_for_memory_half_a_transaction_lands(
    own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = unit.Pipeline.pipeline_execute_command

    def harmless(self: Any, *args: Any, **options: Any) -> Any:
        return queue(self, *(("GET", args[1]) if args[0] == "SET" and args[1].endswith(":memory") else args), **options)

    monkeypatch.setattr(unit.Pipeline, "pipeline_execute_command", harmless)
    url = own_server(Valkey, args=("--maxmemory-policy", "noeviction")).url
    with pytest.raises(AssertionError):
        nothing_without_memory(made(url), redis.Redis.from_url(url))


def nothing_without_memory(store: Any, client: Any) -> None:
    client.set("theirs", "x")
    client.config_set("maxmemory", 1)
    raised = error_of(lambda: transacted(store, lambda session: session.pipeline.delete("theirs")))
    client.config_set("maxmemory", 0)
    assert (client.get("theirs"), store.outbox.count()) == (b"x", 0)
    assert raised is PersistenceError


def test_a_message_of_a_handlers_session_lands_with_its_commit(opened: Any, partition: Partition) -> None:
    claim = claimed(opened, partition)
    with pytest.raises(ZeroDivisionError):
        opened.commit_with(claim, lambda session: (opened.outbox.add(session, messages(1)), 1 / 0))
    assert opened.outbox.count() == 0
    opened.commit_with(claim, lambda session: (opened.outbox.add(session, messages(1)), Changes(5))[1])
    assert (opened.outbox.count(), opened.read(partition).claim.offset) == (1, 5)


def test_outbox_add_says_what_to_pass_instead_of_no_session_or_another_kinds(opened: Any) -> None:
    for session in (None, object()):
        with pytest.raises(ConfigurationError, match="outbox"):
            opened.outbox.add(session, messages(1))
    assert opened.outbox.count() == 0


@cluster_only
def test_what_would_span_servers_of_a_cluster_is_refused_before_anything_is_written(
    store: Any, partition: Partition
) -> None:
    claim = claimed(store, partition)
    [timeout] = timeouts(1)
    mine = OutboxMessage("topic")
    with pytest.raises(ConfigurationError, match="Redis cluster"):
        store.commit(claim, Changes(1, timeouts=[timeout]))
    with pytest.raises(ConfigurationError, match="Redis cluster"):
        store.commit_with(claim, lambda session: Changes(1, cancels=[timeout.id]))
    [refused] = store.commit_all([(claim, Changes(1, timeouts=[timeout]))])
    assert isinstance(refused, ConfigurationError)
    with pytest.raises(ConfigurationError, match="return the messages"):
        store.commit_with(claim, lambda session: (store.outbox.add(session, [mine]), Changes(1))[1])
    with store.transaction() as session:
        session.pipeline.set(session.key("order"), "placed")
        store.outbox.add(session, [mine])
    assert [row.message.id for row in store.outbox.find(limit=100_000)].count(mine.id) == 1
    assert (store.read(partition).claim.offset, store.commit(claim, Changes(2)).offset) == (-1, 2)


# -- scheduling in commits
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["commit", "commit_all", "commit_with"])
def test_timeouts_and_cancels_are_part_of_the_commit(opened: Any, partition: Partition, how: str) -> None:
    old, kept, new = timeouts(3)
    opened.timeouts.insert(old, kept)
    again = Timeout(kept.id, "elsewhere", kept.due_at)
    changes = Changes(5, entries=[b"e"], outbox=rows(1), timeouts=[again, new], cancels=[old.id, uuid4()])
    claim = claimed(opened, partition)
    if how == "commit":
        opened.commit(claim, changes)
    elif how == "commit_all":
        opened.commit_all([(claim, changes)])
    else:
        opened.commit_with(claim, lambda session: changes)
    assert opened.timeouts.find() == [kept, new]
    assert (opened.read(partition).claim.offset, opened.read(partition).unsent) == (5, 1)


def test_a_fenced_commit_schedules_and_cancels_nothing(opened: Any, partition: Partition) -> None:
    [old, new] = timeouts(2)
    opened.timeouts.insert(old)
    late = claimed(opened, partition)
    claimed(opened, partition)
    with pytest.raises(Exception, match="newer claim"):
        opened.commit(late, Changes(5, timeouts=[new], cancels=[old.id]))
    assert opened.timeouts.find() == [old]


def test_a_commit_that_meets_damaged_timeouts_changes_nothing(opened: Any, client: Any, partition: Partition) -> None:
    claim = claimed(opened, partition)
    client.rpush(PREFIX + "timeouts:payloads", "damaged")
    before = dump(client)
    with pytest.raises(PersistenceError):
        opened.commit(claim, Changes(5, entries=[b"e"], timeouts=timeouts(1), cancels=[UUID(int=5)]))
    assert dump(client) == before


def test_a_session_names_keys_that_lie_with_the_outbox(opened: Any) -> None:
    with opened.transaction() as session:
        assert isinstance(session, RedisSession)
        assert session.key("x").startswith(PREFIX)
