"""Several Valkeys that know each other: a primary with replicas and sentinels, and a cluster."""

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import redis

from tests.servers.process import Server
from tests.servers.program import Image, Place
from tests.servers.valkey import Valkey, binary
from tests.waiting import wait_until

PRIMARY = "main"
SLOTS = 16384

Start = Callable[..., Server]
"""The fixture own_server, or something like it."""


@dataclass(frozen=True)
class Sentinel:
    """Two of these must agree that the primary is gone, which takes them a second."""

    primary_port: int
    name: ClassVar[str] = "sentinel"
    variable: ClassVar[str] = "SENTINEL_URL"
    address: ClassVar[str] = "redis://127.0.0.1:{port}"
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        place.data.mkdir(exist_ok=True)
        settings = [
            ("monitor", f"127.0.0.1 {self.primary_port} 2"),
            ("down-after-milliseconds", "1000"),
            ("failover-timeout", "4000"),
        ]
        lines = [f"sentinel {name} {PRIMARY} {value}" for name, value in settings]
        (place.data / "sentinel.conf").write_text(
            "\n".join([f"port {place.port}", "bind 127.0.0.1", f"dir {place.data}", *lines, ""])
        )
        return ()

    def command(self, place: Place) -> Sequence[str]:
        return [binary(), str(place.data / "sentinel.conf"), "--sentinel"]

    def probe(self, url: str) -> None:
        Valkey().probe(url)

    def image(self, place: Place) -> Image:
        raise RuntimeError("sentinels are processes of ours")


@dataclass(frozen=True)
class Sentinels:
    """`servers[0]` is the first primary."""

    servers: Sequence[Server]
    sentinels: Sequence[Server]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{sentinel.port}' for sentinel in self.sentinels)}/{PRIMARY}"

    def primary(self) -> int:
        """The port that the first sentinel names."""
        return int(ask(self.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY)[1])


def sentinels(start: Start, *args: str) -> Sentinels:
    """One primary, two replicas in step with it, three sentinels that know all. `args` are options of the servers."""
    first = start(Valkey, args=("--repl-diskless-sync-delay", "0", *args))
    replicas = [
        start(Valkey, args=("--repl-diskless-sync-delay", "0", "--replicaof", f"127.0.0.1 {first.port}", *args))
        for _ in range(2)
    ]
    keepers = [start(Sentinel, primary_port=first.port) for _ in range(3)]
    made = Sentinels([first, *replicas], keepers)

    def in_step() -> bool:
        return all(info(replica)["master_link_status"] == "up" for replica in replicas) and all(
            map(_knows_all, keepers)
        )

    wait_until(in_step, 30, "replicas and sentinels")
    return made


def _knows_all(sentinel: Server) -> bool:
    answer = ask(sentinel, "SENTINEL", "MASTER", PRIMARY)
    facts = answer if isinstance(answer, dict) else dict(zip(answer[::2], answer[1::2], strict=True))
    return (int(facts["num-slaves"]), int(facts["num-other-sentinels"])) == (2, 2)


def cluster(start: Start, *args: str, replicas: int = 0) -> list[Server]:
    """Three primaries with a third of the slots each, then `replicas` replicas of the first one."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--repl-diskless-sync-delay", "0", *args)
    nodes = [start(Valkey, args=options) for _ in range(3 + replicas)]
    bounds = [SLOTS * number // 3 for number in range(4)]
    for number, node in enumerate(nodes[:3]):
        ask(node, "CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for node in nodes[1:]:
        ask(nodes[0], "CLUSTER", "MEET", "127.0.0.1", node.port, node.place.inner_port)
    wait_until(lambda: all(_ready(node, len(nodes)) for node in nodes), 30, "the cluster")
    first = ask(nodes[0], "CLUSTER", "MYID")
    for node in nodes[3:]:
        ask(node, "CLUSTER", "REPLICATE", first)
        wait_until(lambda node=node: info(node).get("master_link_status") == "up", 30, "a replica")
    return nodes


def cluster_url(nodes: Sequence[Server]) -> str:
    return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in nodes)}"


def _ready(node: Server, size: int) -> bool:
    text = str(ask(node, "CLUSTER", "INFO"))
    known = str(ask(node, "CLUSTER", "NODES"))
    return (
        all(word in text for word in ("cluster_state:ok", f"cluster_known_nodes:{size}")) and "handshake" not in known
    )


def info(server: Server) -> dict[str, Any]:
    with redis.Redis.from_url(server.url, socket_timeout=5) as client:
        return dict(client.info("replication"))


def ask(server: Server, *command: str | int) -> Any:
    """One command, its reply as it comes."""
    with redis.Redis.from_url(server.url, socket_timeout=5, decode_responses=True, protocol=2) as client:
        client.response_callbacks.clear()
        return client.execute_command(*command)
