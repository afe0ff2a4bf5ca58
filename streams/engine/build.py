"""A worker from its parts: the one place where the engine is put together."""

from collections.abc import Callable

from schemas import codec
from streams.agent import Agent, App
from streams.aggregation.rule import Rule
from streams.engine.backoff import Backoff
from streams.engine.claims import Claims
from streams.engine.dedupe import IdRule
from streams.engine.owner import Setting
from streams.engine.relay import Relay
from streams.engine.rows import Rows
from streams.engine.worker import Parts, Worker
from streams.errors import ConfigurationError
from streams.values import Partition

MESSAGE_BYTES = 1_000_000  # librdkafka's message.max.bytes


def build(app: App, agent: Agent, number: int, member: str, on_rule_change: str, parts: Parts) -> Worker:
    """A worker of `agent`, ready to run. Raises ConfigurationError for a rule that cannot be compiled."""
    try:
        reads, writes = codec(agent.format), codec(agent.to.format)
    except ValueError as error:
        raise ConfigurationError(f"agent {agent.name}: {error}") from error
    ids = IdRule(agent, reads) if agent.dedupe else None
    setting = Setting(agent, Rule(agent, reads), parts.store, parts.input, parts.token(), member, on_rule_change, ids)
    most = int(app.kafka.get("message.max.bytes", MESSAGE_BYTES))
    rows: Callable[[Partition], Rows] = lambda partition: Rows(partition, agent, writes, parts.producer, most)  # noqa: E731
    claims = Claims(setting, app.name, rows, parts.meter, parts.token, parts.random, parts.clock.monotonic)
    relay = Relay(parts.producer, parts.meter, Backoff(0.1, 5.0, parts.random))
    return Worker(app, agent, number, setting, claims, relay, parts)
