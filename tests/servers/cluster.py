"""Kafka brokers that know each other, and a way of its own to all of them for each client that a test wants to cut
off."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.servers.kafka import Kafka
from tests.servers.process import Server, free_port
from tests.servers.proxy import Proxy

SEVERAL = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # A leader that is gone must be replaced within a test's patience.
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "replica.lag.time.max.ms": "5000",
}


class Cluster:
    """`size` brokers, which are controllers, too. `ways[n][b]` is the proxy before broker b on way n: whoever comes by
    the addresses of `bootstrap(n)` meets only the proxies of way n."""

    def __init__(self, root: Path, size: int = 1, ways: int = 0) -> None:
        self.servers = [Server(Kafka(), root / f"broker-{number}") for number in range(1, size + 1)]
        self.ways: list[list[Proxy]] = [
            [Proxy("127.0.0.1", free_port(), free_port()) for _ in self.servers] for _ in range(ways)
        ]
        voters = ",".join(
            f"{number}@127.0.0.1:{server.place.inner_port}" for number, server in enumerate(self.servers, 1)
        )
        for number, server in enumerate(self.servers):
            server.program = Kafka(self._config(number, server, voters) | (SEVERAL if size > 1 else {}))

    def _config(self, number: int, server: Server, voters: str) -> Mapping[str, str]:
        doors = [(f"W{way}", proxies[number]) for way, proxies in enumerate(self.ways)]
        own = f"B://127.0.0.1:{server.port}"
        listeners = [own, *(f"{name}://127.0.0.1:{proxy.target[1]}" for name, proxy in doors)]
        advertised = [own, *(f"{name}://127.0.0.1:{proxy.port}" for name, proxy in doors)]
        return {
            "node.id": str(number + 1),
            "controller.quorum.voters": voters,
            "listeners": ",".join([*listeners, f"C://127.0.0.1:{server.place.inner_port}"]),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("B", "C", *(name for name, _ in doors))
            ),
        }

    def start(self) -> "Cluster":
        """All at once: none answers before most are there."""
        with ThreadPoolExecutor(len(self.servers)) as pool:
            list(pool.map(lambda server: server.start(120.0), self.servers))
        return self

    @property
    def url(self) -> str:
        """Past all proxies."""
        return ",".join(server.url for server in self.servers)

    def bootstrap(self, way: int) -> str:
        return ",".join(f"127.0.0.1:{proxy.port}" for proxy in self.ways[way])

    def prefer_first_leaders(self) -> int:
        """Have each partition led by its first replica again; how many leaders moved."""
        from confluent_kafka import ElectionType
        from confluent_kafka.admin import AdminClient

        admin: Any = AdminClient({"bootstrap.servers": self.url, "log_level": 0})
        moved = admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
        return sum(error is None for error in moved.values())

    def close(self) -> None:
        for proxy in self._proxies():
            proxy.close()
        for server in self.servers:
            server.destroy()

    def _proxies(self) -> Sequence[Proxy]:
        return [proxy for proxies in self.ways for proxy in proxies]
