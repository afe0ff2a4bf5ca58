"""Redis behind a wire that fails: what landed is only told by the next claim, and nothing is sent twice."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sluicegate.connectors.redis import addresses
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import Fenced, PersistenceError
from tests.contracts.given import claimed, opened, rows, seen
from tests.contracts.scenarios import error_of
from tests.servers import Proxy, Server
from tests.servers.valkey import Valkey
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "REPLY_SECONDS", 0.4)


@pytest.fixture
def server(own_server: Callable[..., Server]) -> Server:
    return own_server(Valkey)


@pytest.fixture
def wire(server: Server, proxy: Callable[..., Proxy]) -> Proxy:
    return proxy(server.url)


@pytest.fixture
def store(wire: Proxy) -> Iterator[Store]:
    made = opened(wire.url)
    yield made
    made.close()


def scripts_run(server: Server) -> int:
    return int(redis.Redis.from_url(server.url).info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


@contextmanager
def one_lost_reply(wire: Proxy) -> Iterator[None]:
    """The reply to what is sent inside is swallowed, then the connection breaks and all is well again."""

    def lose() -> None:
        wait_until(lambda: wire.dropped > before, what="a lost reply", pause=0.001)
        wire.release()
        wire.reset()

    before = wire.dropped
    wire.drop_replies()
    losing = threading.Thread(target=lose)
    losing.start()
    yield
    losing.join(20)


def one_commit_is_sent_once(store: Store, wire: Proxy, server: Server, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1))
    before = scripts_run(server)
    with one_lost_reply(wire):
        raised = error_of(lambda: store.commit(claim, Changes(2, entries=[b"e"], outbox=rows(1))))
    assert scripts_run(server) == before + 1
    assert raised is PersistenceError
    assert claimed(store, partition).offset == 2


def test_a_commit_whose_reply_is_lost_is_unknown_and_sent_once(
    store: Store, wire: Proxy, server: Server, partition: Partition
) -> None:
    one_commit_is_sent_once(store, wire, server, partition)


def test_with_the_drivers_retries_a_commit_whose_reply_is_lost_is_sent_again(
    wire: Proxy, server: Server, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "Retry", lambda _backoff, _times: Retry(NoBackoff(), 2))
    with pytest.raises(AssertionError):
        one_commit_is_sent_once(opened(wire.url), wire, server, partition)


def test_after_a_lost_reply_the_next_claim_shows_what_landed(store: Store, wire: Proxy, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1))
    wire.drop_replies()
    with pytest.raises(PersistenceError) as caught:
        store.commit(claim, Changes(2, entries=[b"e"], outbox=rows(1)))
    assert isinstance(caught.value.__cause__, redis.TimeoutError)
    wire.release()
    with pytest.raises(Fenced):
        store.commit(claim, Changes(2, entries=[b"e"], outbox=rows(1)))
    claim = claimed(store, partition)
    assert (claim.offset, claim.version, claim.number, list(store.restore(claim))) == (2, 2, 1, [b"e"])


def test_late_bytes_of_a_commit_change_nothing_once_somebody_else_claimed(
    store: Store, wire: Proxy, server: Server, partition: Partition
) -> None:
    zombie = store.commit(claimed(store, partition), Changes(1, entries=[b"good"]))
    wire.hold("to-server")
    with pytest.raises(PersistenceError):
        store.commit(zombie, Changes(2, entries=[b"zombie"], outbox=rows(1)))
    direct = opened(server.url)
    owner = claimed(direct, partition)
    before = scripts_run(server)
    wire.release()
    wait_until(lambda: scripts_run(server) > before, what="the late bytes")
    assert seen(direct, partition).entries == [b"good"]
    assert direct.commit(owner, Changes(2)).offset == 2


@pytest.mark.parametrize("fault", ["reset", "refuse"])
def test_every_call_on_a_broken_wire_is_a_persistence_error_and_the_next_one_works(
    store: Store, wire: Proxy, partition: Partition, fault: str
) -> None:
    claim = claimed(store, partition)
    wire.refuse()
    wire.reset()
    calls = (
        lambda: store.claim(partition, "t", "m"),
        lambda: list(store.restore(store.commit(claim, Changes(1, entries=[b"e"])))),
        lambda: store.pending(partition, 0, 1),
        lambda: store.clear_crash_mark(partition, "t", ["p"]),
        lambda: store.read(partition),
        lambda: store.partitions(partition.app),
        store.level,
        store.migrate,
        lambda: store.incarnation,
    )
    for call in calls:
        with pytest.raises(PersistenceError):
            call()
    wire.accept()
    if fault == "reset":
        wire.reset()
    assert store.commit(claim, Changes(1)).offset == 1


def test_a_redis_that_hangs_ends_as_a_persistence_error(store: Store, server: Server, partition: Partition) -> None:
    claim = claimed(store, partition)
    server.pause()
    with pytest.raises(PersistenceError, match="Timeout"):
        store.commit(claim, Changes(1))
    server.resume()
    assert claimed(store, partition).offset in (-1, 1)


def test_a_redis_that_forgot_the_scripts_gets_them_again(store: Store, server: Server, partition: Partition) -> None:
    claim = claimed(store, partition)
    redis.Redis.from_url(server.url).script_flush()
    assert store.commit(claim, Changes(1, entries=[b"e"])).offset == 1
    assert seen(store, partition).entries == [b"e"]
