"""Kafka: one KRaft node, broker and controller in one, with transactions and the consumer protocol of KIP-848."""

import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tests.servers import jars
from tests.servers.certificates import Certificate
from tests.servers.program import Image, Place, Unavailable

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "B",
    "controller.listener.names": "C",
    "listener.security.protocol.map": "B:PLAINTEXT,C:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One node holds everything; few internal partitions make the first transaction and the first group quick.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    # a transaction that timed out ends then; by default within 10 s
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # Tests kill consumers and wait for their sessions to end.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    # After kill -9 the controller refuses the node until its old session ends; by default that takes 9 s.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    # Small files and few threads: the machine is small and shared.
    "log.segment.bytes": "67108864",
    "log.index.size.max.bytes": "1048576",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.threads": "1",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
}

JVM = ("-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

LOGGING = """rootLogger.level=warn
rootLogger.appenderRef.c.ref=c
appender.c.type=Console
appender.c.name=c
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c %m%n
"""


SECURITY = {"TLS": "SSL", "MUTUAL": "SSL", "SASL": "SASL_SSL", "ENDED": "SSL"}


def _store(tls: Certificate) -> dict[str, str]:
    """Who comes by MUTUAL must have a certificate of the same authority."""
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tls.both)}
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tls.authority)}
    return own | trusted | {"listener.name.mutual.ssl.client.auth": "required"}


@dataclass(frozen=True)
class Kafka:
    """`config` adds to or replaces SETTINGS; `advertised` is the port told to clients, when they come through a proxy.
    `listeners` are further ones, on localhost: a name of SECURITY and its port. `options` are of the JVM. `version` is
    that of the jars."""

    config: Mapping[str, str] = field(default_factory=dict)
    advertised: int | None = None
    heap: str = "256m"
    tls: Certificate | None = None
    listeners: Mapping[str, int] = field(default_factory=dict)
    options: Sequence[str] = ()
    version: str = jars.VERSION
    name: ClassVar[str] = "kafka"
    variable: ClassVar[str] = "KAFKA_BOOTSTRAP_SERVERS"
    address: ClassVar[str] = "127.0.0.1:{port}"
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        settings = self._settings(place, "127.0.0.1") | {"log.dirs": str(place.data)}
        properties, logging = place.root / "server.properties", place.root / "log4j2.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        logging.write_text(LOGGING)
        java = self._java(place)
        return [[*java, "kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties)]]

    def command(self, place: Place) -> Sequence[str]:
        return [*self._java(place), "kafka.Kafka", str(place.root / "server.properties")]

    def probe(self, url: str) -> None:
        from confluent_kafka.admin import AdminClient

        AdminClient({"bootstrap.servers": url, "log_level": 0}).list_topics(timeout=2)

    def image(self, place: Place) -> Image:
        settings = self._settings(place, "0.0.0.0")
        environment = {"KAFKA_" + name.upper().replace(".", "_"): value for name, value in settings.items()}
        return Image(
            f"apache/kafka:{self.version}",
            [],
            environment
            | {"CLUSTER_ID": CLUSTER_ID, "KAFKA_HEAP_OPTS": f"-Xmx{self.heap}", "KAFKA_OPTS": " ".join(self.options)},
        )

    def _settings(self, place: Place, host: str) -> dict[str, str]:
        listeners = {
            "listeners": f"B://{host}:{place.port},C://127.0.0.1:{place.inner_port}",
            "advertised.listeners": f"B://127.0.0.1:{self.advertised or place.port}",
            "controller.quorum.voters": f"1@127.0.0.1:{place.inner_port}",
        }
        return SETTINGS | self._more(listeners) | dict(self.config)

    def _more(self, listeners: dict[str, str]) -> dict[str, str]:
        """With the further listeners."""
        places = [f"{name}://localhost:{port}" for name, port in self.listeners.items()]
        kinds = ",".join(
            [SETTINGS["listener.security.protocol.map"], *(f"{name}:{SECURITY[name]}" for name in self.listeners)]
        )
        with_them = {name: ",".join([listeners[name], *places]) for name in ("listeners", "advertised.listeners")}
        tls = {} if self.tls is None else _store(self.tls)
        return listeners | with_them | tls | {"listener.security.protocol.map": kinds}

    def _java(self, place: Place) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("Kafka needs java on the PATH: install a Java 17 runtime")
        logging = f"-Dlog4j2.configurationFile={place.root / 'log4j2.properties'}"
        return [java, f"-Xmx{self.heap}", *JVM, *self.options, logging, "-cp", f"{jars.kafka(self.version)}/*"]
