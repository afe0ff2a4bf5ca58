"""Settings of librdkafka for each kind of client: our values, and the user's settings that the client takes.

sluicegate.streams.config refuses settings that a file must not have; here our values win.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from sluicegate.connectors.kafka.logins import expanded

Settings = Mapping[str, str | int | float | bool]

log = logging.getLogger("sluicegate.connectors.kafka")
# lost connections also come by the error hook
log.addFilter(lambda line: not (line.args and "FAIL" in line.args))
REPEAT = 30.0  # seconds

CONSUMER_ONLY = frozenset(
    {
        "allow.auto.create.topics",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.wait.max.ms",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "session.timeout.ms",
    }
)
PRODUCER_ONLY = frozenset(
    {
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "linger.ms",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "request.timeout.ms",
    }
)
ALIASES = {"compression.codec": "compression.type", "queue.buffering.max.ms": "linger.ms"}

STRATEGY, SESSION = "partition.assignment.strategy", "session.timeout.ms"
INSTANCE = "group.instance.id"
HEARTBEAT = 1000
"""Milliseconds. The other members learn of a rebalance from the reply to a heartbeat, so the partitions of a member
that died wait for so long, too. librdkafka's default is 3 s."""
CLASSIC_DEFAULTS: Settings = {
    STRATEGY: "cooperative-sticky",
    SESSION: 10_000,  # the groups of a dead worker wait for so long; librdkafka's default is 45 s
}
CONSUMER_DEFAULTS: Settings = {
    # added partitions are assigned when a member has seen them; librdkafka's default is 5 minutes
    "topic.metadata.refresh.interval.ms": 10_000,
    "fetch.wait.max.ms": 100,  # a starting partition waits for the fetch under way; librdkafka's default is 500
    "queued.max.messages.kbytes": 16_384,  # librdkafka's default of 64 MiB makes no job faster
}
CONSUMER: Settings = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # a lost offset must be an error, not a jump
    "isolation.level": "read_committed",
    "check.crcs": True,
    "fetch.queue.backoff.ms": 5,  # the default stops fetching for a second when the local queue is full
    "allow.auto.create.topics": False,
}
PRODUCER_DEFAULTS: Settings = {
    "linger.ms": 1,  # measured with bursts of 1 to 10,000 rows: 0 costs more CPU and requests, 2 and 5 only add latency
    "compression.type": "lz4",
    "queue.buffering.max.messages": 20_000,
    "queue.buffering.max.kbytes": 32_768,  # the default is 1 GiB
}
DISPATCHER_DEFAULTS: Settings = {
    **PRODUCER_DEFAULTS,
    "linger.ms": 100,  # at most: streams/outbox/sender.py calls `send_now` when no more rows are being claimed
}
TRANSACTION_TIMEOUT = 30.0
"""Seconds until the brokers end a transaction whose producer is gone. Until then, or until the next producer is opened,
readers of committed records wait for it. A transaction takes milliseconds, and at most this time while brokers are
away."""
WITHIN_A_TRANSACTION = ("socket.timeout.ms", "linger.ms")
"""Milliseconds. librdkafka refuses longer ones than a transaction."""
TRANSACTIONAL_DEFAULTS: Settings = {
    **PRODUCER_DEFAULTS,
    # a transaction begins while the brokers still end the last one: the default would add 100 ms to each
    "retry.backoff.ms": 20,
}
PRODUCER: Settings = {
    "enable.idempotence": True,
    "acks": "all",
    "message.timeout.ms": 0,  # rows wait for a broker that is down
    "delivery.report.only.error": False,
}
SILENT: Settings = {"log_level": 0}  # an admin client is not polled: its log lines would pile up

ErrorHook = Callable[[KafkaError], None]


def consumer(
    kafka: Settings, group: str, member: str, on_error: ErrorHook, ends: bool = False, instance: str = ""
) -> dict[str, Any]:
    """Settings of a Consumer in `group`; `member` is its client id. `ends`: it reports the end of a partition. With
    `instance` it is a static member of a classic group (KIP-345): the next member of this instance gets its partitions
    at once. A group by the protocol of KIP-848 refuses that member until the session ends, so there it is dynamic."""
    defaults = {**_of_the_group(kafka), **CONSUMER_DEFAULTS}
    names: dict[str, Any] = {"group.id": group, "client.id": member, "enable.partition.eof": ends}
    if instance and not by_the_broker(kafka):
        names[INSTANCE] = instance
    return {**_logging(on_error), **defaults, **_without(kafka, PRODUCER_ONLY), **CONSUMER, **names}


def producer(kafka: Settings, on_error: ErrorHook, defaults: Settings = PRODUCER_DEFAULTS) -> dict[str, Any]:
    """Settings of an idempotent Producer."""
    return {**_logging(on_error), **defaults, **_of_a_producer(kafka), **PRODUCER}


def transactional(kafka: Settings, identity: str) -> dict[str, Any]:
    """Settings of a Producer of transactions with this `transactional.id`. It logs nothing, because its calls raise
    errors."""
    milliseconds = int(TRANSACTION_TIMEOUT * 1000)
    ours = {"transactional.id": identity, "transaction.timeout.ms": milliseconds, "message.timeout.ms": milliseconds}
    users = _of_a_producer(kafka)
    return {
        **TRANSACTIONAL_DEFAULTS,
        **users,
        **{name: min(users[name], milliseconds - 1) for name in WITHIN_A_TRANSACTION if name in users},
        **PRODUCER,
        **ours,
        "delivery.report.only.error": True,
        **SILENT,
    }


def offsets(kafka: Settings, group: str) -> dict[str, Any]:
    """Settings of a Consumer that reads only offsets that `group` committed, in ended transactions. Its fetches have
    librdkafka's size, for which the user's largest response may be too small."""
    ours = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    users = {name: value for name, value in admin(kafka).items() if name != "receive.message.max.bytes"}
    return {**users, **ours}


def admin(kafka: Settings) -> dict[str, Any]:
    """Settings of an AdminClient."""
    return {**_without(kafka, CONSUMER_ONLY | PRODUCER_ONLY), **SILENT}


def by_the_broker(kafka: Settings) -> bool:
    """Whether the group uses the protocol of KIP-848."""
    return str(kafka.get("group.protocol", "classic")).lower() == "consumer"


def _of_the_group(kafka: Settings) -> Settings:
    """The defaults of a member of a classic group: Kafka asks for at least three heartbeats in a session timeout."""
    if by_the_broker(kafka):
        return {}
    session = int(kafka.get(SESSION, CLASSIC_DEFAULTS[SESSION]))
    return {**CLASSIC_DEFAULTS, "heartbeat.interval.ms": min(HEARTBEAT, max(1, session // 3))}


def incremental(kafka: Settings) -> bool:
    """Whether rebalances assign and revoke single partitions (cooperative, KIP-848) instead of all of them (eager)."""
    strategy = kafka.get(STRATEGY, CLASSIC_DEFAULTS[STRATEGY])
    return by_the_broker(kafka) or strategy == "cooperative-sticky"


class Complaints:
    """Logs a client's errors, each code at most twice a minute: with a broker down they come several times a
    second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[int, float] = {}

    def say(self, error: KafkaError, text: str) -> None:
        now = self._clock()
        if now - self._last.get(error.code(), -REPEAT) >= REPEAT:
            self._last[error.code()] = now
            log.warning("%s", text)


def _of_a_producer(kafka: Settings) -> dict[str, Any]:
    return {ALIASES.get(name, name): value for name, value in _without(kafka, CONSUMER_ONLY).items()}


def _without(kafka: Settings, names: frozenset[str]) -> dict[str, Any]:
    """The settings with the settings of the login in place of its name."""
    return {name: value for name, value in expanded(kafka).items() if name not in names}


def _logging(on_error: ErrorHook) -> dict[str, Any]:
    """librdkafka writes to stderr unless it has a logger, which gets its lines during `poll`. Errors come by the hook
    anyway."""
    return {"logger": log, "error_cb": on_error, "log.connection.close": False}
