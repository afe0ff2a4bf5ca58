"""Builds a worker from its parts. No other module assembles the engine."""

from collections.abc import Callable
from dataclasses import replace

from sluicegate.schemas import Codec
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.pool import InlinePool
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Output
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.build_shared import intake
from sluicegate.streams.engine.worker import Worker, WorkerDependencies
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.flow.control import flow_control
from sluicegate.streams.handlers.failures import Policy
from sluicegate.streams.handlers.forwarding import Forwarding
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.handlers.processor import Aggregating, RecordProcessor
from sluicegate.streams.handlers.rekey import rekeying
from sluicegate.streams.handlers.sending import HandlerOutputs
from sluicegate.streams.handlers.slow import Slow
from sluicegate.streams.handlers.tables import KeepingRows
from sluicegate.streams.handlers.values import OutputTarget, TimeoutReturn
from sluicegate.streams.lookups.handled import LookingHandling, LookingSlow
from sluicegate.streams.lookups.records import LookingForwarding
from sluicegate.streams.lookups.results import LookingResults
from sluicegate.streams.lookups.rows import Lookups
from sluicegate.streams.lookups.tables import TopicTables
from sluicegate.streams.outbox.relay import Outgoing, Relay
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.outbox.signing import SignedOutput, signing
from sluicegate.streams.outbox.sizes import longest
from sluicegate.streams.outbox.split import SplitRelay
from sluicegate.streams.outbox.transactional import TransactionalRelay
from sluicegate.streams.ownership.claims import Claims
from sluicegate.streams.ownership.matching_topics import MatchingTopics
from sluicegate.streams.ownership.registered import RegisteredSchemas
from sluicegate.streams.ownership.setting import AgentRuntime
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.rules.versions import UNVERSIONED, Deployed
from sluicegate.streams.topic_names import looks_for_topics, topics


def build(
    app: App,
    agent: Agent,
    number: int,
    member: str,
    on_rule_change: str,
    parts: WorkerDependencies,
    deployed: Deployed = UNVERSIONED,
) -> Worker:
    """Build a worker of `agent`. `deployed` has the versions of its rule; the last one is the rule of `agent`. Raises
    ConfigurationError for a rule that cannot be compiled."""
    tables = _tables(agent, parts)
    lookups = Lookups(agent.lookups, parts.store, tables)
    setting = _runtime(app, agent, member, on_rule_change, parts, deployed, lookups)
    setting.rule.reader.traced = parts.spans is not None
    claims = Claims(setting, app.name, parts.meter, parts.token, parts.random, parts.clock.monotonic, parts.spans)
    return Worker(app, setting.agent, number, setting, claims, _relay(agent, parts), parts, tables)


def _tables(agent: Agent, parts: WorkerDependencies) -> TopicTables | None:
    """The topics that the agent looks up; None if there are none."""
    lookups = [lookup for lookup in agent.lookups if lookup.kind == "topic"]
    if not lookups:
        return None
    if parts.table is None:
        raise ConfigurationError(f"agent {agent.name}: a lookup of a topic needs Kafka")
    return TopicTables(lookups, parts.table, parts.clock.monotonic, parts.meter, agent.max_record_bytes)


def _runtime(
    app: App,
    agent: Agent,
    member: str,
    on_rule_change: str,
    parts: WorkerDependencies,
    deployed: Deployed,
    lookups: Lookups,
) -> AgentRuntime:
    try:
        reads, writes = formats.reads(agent), formats.writes(agent)
    except ValueError as error:
        raise ConfigurationError(f"agent {agent.name}: {error}") from error
    rule, outputs = Rule(agent, reads), output_target(app, agent, reads)
    processor: RecordProcessor
    slow: Slow | None = None
    if agent.scope == "shared":
        processor = intake(app.name, agent, rule, reads, writes, outputs, parts, lookups)
    else:
        processor, slow = _processor(app.name, agent, rule, reads, outputs, parts, lookups)
    agent = _receiving(agent, processor, outputs.back.topic)
    return AgentRuntime(
        agent,
        rule,
        parts.store,
        parts.input,
        parts.token(),
        member,
        on_rule_change,
        processor,
        slow,
        _rows_of(agent, writes, parts, outputs.most),
        IdRule(agent, reads) if agent.dedupe and agent.scope != "shared" else None,
        RegisteredSchemas(agent),
        deployed,
        parts.mac,
        MatchingTopics(app.name, agent, parts.store, parts.input, parts.token) if looks_for_topics(agent) else None,
        tuple(parts.outputs) if agent.delivery == "at-least-once" else (),
        parts.probes_first,
    )


def _receiving(agent: Agent, processor: RecordProcessor, back: str) -> Agent:
    """The agent with detection of repeats for its timeouts, if its handler schedules any: a timeout may be sent
    twice."""
    if isinstance(processor, Handling) and processor.schedules and back and back not in agent.receive:
        return replace(agent, receive=(*agent.receive, back))
    return agent


def _rows_of(agent: Agent, writes: Codec, parts: WorkerDependencies, most: int) -> Callable[[Partition, Agent], Rows]:
    """A function that creates the rows of a partition, under the current or an earlier rule of the agent."""

    def rows(partition: Partition, of: Agent) -> Rows:
        return Rows(partition, of, writes if of is agent else formats.writes(of), parts.producer, most)

    return rows


def _looking(
    agent: Agent, rule: Rule, reads: Codec, most: int, parts: WorkerDependencies, lookups: Lookups
) -> RecordProcessor:
    """The processor of an agent with lookups and no handler. Raises ConfigurationError."""
    if agent.aggregation is not None:
        return LookingResults(agent, lookups, parts.clock.monotonic)
    return LookingForwarding(agent, rule, reads, most, lookups, parts.clock.monotonic)


def _relay(agent: Agent, parts: WorkerDependencies) -> Outgoing:
    backoff: Callable[[], Backoff] = lambda: Backoff(0.1, 5.0, parts.random)  # noqa: E731
    several = len(agent.outputs) > 1
    if agent.delivery == "at-least-once":
        if parts.outputs:
            every = {name: _signed(output, parts.mac) for name, output in parts.outputs.items()}
            return SplitRelay({name: Relay(output, parts.meter, backoff(), several) for name, output in every.items()})
        return Relay(_signed(parts.producer, parts.mac), parts.meter, backoff(), several)
    if parts.transactions is None:
        raise ConfigurationError(f"agent {agent.name}: delivery transactional needs Kafka transactions")
    return TransactionalRelay(signing(parts.transactions, parts.mac), parts.pool, parts.meter, backoff, several)


def _signed(output: Output, mac: Mac | None) -> Output:
    return output if mac is None else SignedOutput(output, mac)


def output_target(app: App, agent: Agent, reads: Codec) -> OutputTarget:
    """The destinations of the outputs of the agent's handler."""
    first = next(iter(topics(agent.topics)), "")
    back = TimeoutReturn(app.name, agent.name, first, reads.encode)
    return OutputTarget(HandlerOutputs(agent, app.brokers), longest(app), back)


def _processor(
    app: str, agent: Agent, rule: Rule, reads: Codec, outputs: OutputTarget, parts: WorkerDependencies, lookups: Lookups
) -> tuple[RecordProcessor, Slow | None]:
    if agent.lookups and agent.handler is None:
        return _looking(agent, rule, reads, outputs.most, parts, lookups), None
    if agent.keeps_rows:
        return KeepingRows(agent, reads, outputs.most), None
    if agent.rekeys:
        return rekeying(agent, rule, reads, outputs.most), None
    if agent.forwards:
        return Forwarding(agent, rule, reads, outputs.most), None
    handler = agent.handler
    if handler is None:
        return Aggregating(), None
    if handler.session and handler.concurrency:
        raise ConfigurationError(f"agent {agent.name}: a session needs concurrency 0")
    pool = parts.pool(handler.concurrency) if handler.concurrency else InlinePool(1)
    policy = Policy(handler, parts.random, parts.clock.monotonic)
    count, clock = parts.meter.count, parts.clock.monotonic
    admission = flow_control(app, agent, handler, reads, parts.store, pool, clock, parts.token, count)
    if agent.lookups:
        looking = LookingHandling(agent, handler, rule, reads, outputs, policy, pool, lookups, clock)
        return looking, LookingSlow(handler, looking, pool, policy, admission) if handler.concurrency else None
    handling = Handling(agent, handler, rule, reads, outputs, policy, pool)
    return handling, Slow(handler, handling, pool, policy, admission) if handler.concurrency else None
