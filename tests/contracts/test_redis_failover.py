"""Redis servers that take each other's place: the store goes on, and what was lost on the way is never taken for
done."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from sluicegate.connectors.redis import addresses
from sluicegate.connectors.redis.state import _keys
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Claim, Level, Partition
from sluicegate.streams.errors import Fenced, PersistenceError
from tests.contracts.given import claimed, opened, rows, seen
from tests.servers import Server
from tests.servers.valkey_sets import Sentinels, ask, cluster, cluster_url, sentinels
from tests.waiting import wait_until

OwnServer = Callable[..., Server]
UNREPLICATED = "replicas follow asynchronously: a failover may drop acknowledged writes"
UNBOUNDED = "min-replicas-to-write is 0: a primary that was replaced goes on acknowledging writes"
FAILOVER = 10.0
"""Seconds: one until the sentinels agree, some for the election, one connection that must time out."""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "REPLY_SECONDS", 1.0)


@pytest.fixture
def closing() -> Iterator[Callable[[str], Store]]:
    made: list[Store] = []

    def make(url: str) -> Store:
        made.append(opened(url))
        return made[-1]

    yield make
    for store in made:
        store.close()


def survives(store: Store, partition: Partition) -> Claim:
    """A new claim as soon as there is one; meanwhile every error is one that says: unknown."""

    def attempt() -> Claim | None:
        try:
            return claimed(store, partition)
        except PersistenceError:
            return None

    return wait_until(attempt, FAILOVER, "a claim after the failover")


def ends_fenced(store: Store, claim: Claim) -> None:
    """A commit is unknown for a while, until it reaches the primary of now, and then it is refused."""

    def fenced() -> bool:
        try:
            store.commit(claim, Changes(999, entries=[b"late"]))
        except PersistenceError:
            return False
        except Fenced:
            return True
        raise AssertionError("the commit was taken")

    wait_until(fenced, FAILOVER, "the fence")


def replicated(servers: Sentinels) -> None:
    """Everything written until now is on both replicas."""
    assert ask(servers.servers[0], "WAIT", 0, 0) == 2
    primary = int(ask(servers.servers[0], "ROLE")[1])
    wait_until(
        lambda: all(int(ask(server, "ROLE")[4]) >= primary for server in servers.servers[1:]), 10, "the replicas"
    )


def test_a_store_behind_sentinels_goes_on_after_its_primary_was_killed(
    own_server: OwnServer, closing: Callable[[str], Store], partition: Partition
) -> None:
    servers = sentinels(own_server)
    store = closing(servers.url)
    name = store.incarnation
    store.commit(claimed(store, partition), Changes(5, entries=[b"e"], outbox=rows(1)))
    replicated(servers)
    servers.servers[0].kill9()
    killed = time.monotonic()
    claim = survives(store, partition)
    assert time.monotonic() - killed < FAILOVER
    assert (claim.offset, claim.last, claim.incarnation, store.incarnation) == (5, 1, name, name)
    assert store.commit(claim, Changes(6, dispatched=[1])).offset == 6
    assert servers.primary() != servers.servers[0].port


def test_an_acknowledged_commit_that_no_replica_had_is_lost_and_its_owner_is_fenced(
    own_server: OwnServer, closing: Callable[[str], Store], partition: Partition
) -> None:
    """Why the level is lossy; the engine halts the partition, whose claim is behind what was acknowledged."""
    servers = sentinels(own_server)
    store = closing(servers.url)
    claim = store.commit(claimed(store, partition), Changes(5, entries=[b"e"]))
    replicated(servers)
    for replica in servers.servers[1:]:
        replica.kill9()
    claim = store.commit(claim, Changes(6, entries=[b"lost"]))
    servers.servers[0].kill9()
    for replica in servers.servers[1:]:
        replica.restart()
    wait_until(lambda: servers.primary() != servers.servers[0].port, 20, "another primary")
    ends_fenced(store, claim)
    assert seen(store, partition).claim.version < claim.version
    assert claimed(store, partition).offset == 5


def test_what_a_stale_primary_takes_is_never_seen_again_and_never_changes_the_new_one(
    own_server: OwnServer, closing: Callable[[str], Store], partition: Partition
) -> None:
    servers = sentinels(own_server)
    old, new = closing(servers.url), closing(servers.url)
    stale = old.commit(claimed(old, partition), Changes(5, entries=[b"e"]))
    replicated(servers)
    servers.servers[0].pause()
    wait_until(lambda: servers.primary() != servers.servers[0].port, 20, "another primary")
    current = new.commit(survives(new, partition), Changes(6, entries=[b"f"]))
    servers.servers[0].resume()
    late = closing(servers.servers[0].url)  # as a client that has not heard of the new one
    with suppress(PersistenceError):
        stale = late.commit(stale, Changes(100, entries=[b"stale"]))
    ask(servers.servers[0], "REPLICAOF", "127.0.0.1", servers.primary())  # as the sentinels say in the end
    with pytest.raises(PersistenceError):
        late.commit(stale, Changes(101))
    ends_fenced(old, stale)
    view = seen(new, partition)
    assert (view.claim.version, view.claim.offset, view.entries) == (current.version, 6, [b"e", b"f"])
    assert new.commit(current, Changes(7)).offset == 7


def test_a_primary_that_must_have_replicas_takes_nothing_without_them(
    own_server: OwnServer, closing: Callable[[str], Store], partition: Partition
) -> None:
    servers = sentinels(own_server, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")
    store = closing(servers.url)
    assert store.level() == Level("lossy", (UNREPLICATED,))
    claim = claimed(store, partition)
    ask(servers.servers[0], "CONFIG", "SET", "min-replicas-to-write", 3)
    with pytest.raises(PersistenceError, match=r"NOREPLICAS|[Nn]ot enough good replicas"):
        store.commit(claim, Changes(9))
    ask(servers.servers[0], "CONFIG", "SET", "min-replicas-to-write", 0)
    assert store.level() == Level("lossy", (UNBOUNDED, UNREPLICATED))
    assert store.commit(claim, Changes(5)).offset == 5


def test_a_cluster_is_as_durable_as_each_of_its_primaries_and_goes_on_when_a_replica_takes_over(
    own_server: OwnServer, closing: Callable[[str], Store], ns: str
) -> None:
    nodes = cluster(own_server, replicas=1)
    store = closing(cluster_url(nodes))
    first, second = nodes[:2]
    ask(second, "CONFIG", "SET", "appendfsync", "everysec")
    assert store.level().reasons == (
        *(f"127.0.0.1:{first.port}: {text}" for text in (UNBOUNDED, UNREPLICATED)),
        f"127.0.0.1:{second.port}: appendfsync is everysec, not always",
    )
    partitions = [Partition(ns, "agent", "topic", number) for number in range(12)]
    claims = {
        partition: store.commit(claimed(store, partition), Changes(partition.number, entries=[b"e"]))
        for partition in partitions
    }
    assert store.partitions(ns) == partitions
    wait_until(lambda: ask(first, "ROLE")[2][0][2] == str(ask(first, "ROLE")[1]), 10, "the replica")
    first.kill9()
    for partition in partitions:
        assert survives(store, partition).offset == partition.number
    assert store.partitions(ns) == partitions
    with pytest.raises(Fenced):
        store.commit(claims[partitions[0]], Changes(99))


def test_keys_that_moved_to_another_node_are_followed(
    own_server: OwnServer, closing: Callable[[str], Store], partition: Partition
) -> None:
    nodes = cluster(own_server)
    store = closing(cluster_url(nodes))
    slot = ask(nodes[0], "CLUSTER", "KEYSLOT", _keys(partition)[0])
    owner = next(node for node in nodes if _owns(node, slot))
    heir = next(node for node in nodes if node is not owner)
    assert store.read(partition) is None
    # else the others may hold that the slot is still the former one's, and persuade the heir
    ask(heir, "CLUSTER", "BUMPEPOCH")
    for node in (heir, owner):
        ask(node, "CLUSTER", "SETSLOT", slot, "NODE", ask(heir, "CLUSTER", "MYID"))
    wait_until(
        lambda: [node for node in nodes if _sees(node, slot) == ask(heir, "CLUSTER", "MYID")] == nodes,
        20,
        "that all nodes agree",
    )
    assert store.commit(claimed(store, partition), Changes(5, entries=[b"e"])).offset == 5
    assert ask(heir, "CLUSTER", "COUNTKEYSINSLOT", slot) == 2


def _owns(node: Server, slot: int) -> bool:
    return bool(_sees(node, slot) == ask(node, "CLUSTER", "MYID"))


def _sees(node: Server, slot: int) -> Any:
    """Which node has the slot, as far as this one knows."""
    return next(
        (primary[2] for first, last, primary, *_ in ask(node, "CLUSTER", "SLOTS") if first <= slot <= last), None
    )
