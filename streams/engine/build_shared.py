"""Builds the processor of an agent with `scope: shared`."""

from datetime import timedelta
from functools import partial
from math import inf

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.completion import completion
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.calling.calls import BackgroundCalls
from sluicegate.streams.contracts.leased_values import Gate
from sluicegate.streams.contracts.stores import Reader, TopicPartition
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.worker import WorkerDependencies
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.handlers.attempts import COMPANY, bounds
from sluicegate.streams.handlers.failures import Policy
from sluicegate.streams.handlers.handling import Handling
from sluicegate.streams.handlers.values import OutputTarget
from sluicegate.streams.lookups.handled import ItemRows
from sluicegate.streams.lookups.rows import Lookups
from sluicegate.streams.reading.dedupe import IdRule
from sluicegate.streams.shared.shared_early import SharedEarly
from sluicegate.streams.shared.shared_fires import UNDER_WAY, SharedFires
from sluicegate.streams.shared.shared_firing import SharedFiring, aggregation_of
from sluicegate.streams.shared.shared_intake import SharedIntake
from sluicegate.streams.shared.shared_leases import SharedLeases
from sluicegate.streams.shared.shared_records import buffer_name
from sluicegate.streams.shared.shared_rows import SharedRows
from sluicegate.streams.shared.shared_runs import Identified, Packing, Runs, may_end
from sluicegate.streams.shared.shared_size import SharedSize

LEASE = timedelta(seconds=10)  # for a batch; its worker renews it. After a crash, other workers wait for its end
CALLS = 2  # threads for the short calls to the store


def intake(
    app: str,
    agent: Agent,
    rule: Rule,
    reads: Codec,
    writes: Codec,
    outputs: OutputTarget,
    parts: WorkerDependencies,
    lookups: Lookups,
) -> SharedIntake:
    """The processor of an agent with `scope: shared`. Raises ConfigurationError."""
    name, gate, clock = buffer_name(app, agent.name), gate_of(agent), parts.clock.monotonic
    handling, policy = _handling(agent, rule, reads, outputs, parts)
    rows = SharedRows(ItemRows(agent, reads, lookups, clock)) if agent.lookups else None
    firing = SharedFiring(app, agent, reads, writes, outputs.most, handling, rows)
    pool = parts.pool(UNDER_WAY) if handling is None else handling.pool
    calls, work = BackgroundCalls(parts.pool(CALLS), _nobody), BackgroundCalls(pool, _nobody)
    backoff = Backoff(0.2, 10.0, parts.random)
    buffer = parts.store.buffer
    bound = None if policy is None else bounds(policy.handler.attempts, COMPANY)
    leases = SharedLeases(name, gate, buffer, calls, firing.forget, bound, parts.meter, clock, backoff)
    fires = SharedFires(leases, firing, handling, policy, work, parts.meter, clock, parts.time, backoff)
    runs: Runs = Packing(name, gate, buffer, parts.time)
    if agent.dedupe:
        runs = Identified(name, gate, buffer, IdRule(agent, reads), parts.meter, parts.time)

    size = SharedSize(name, buffer, BackgroundCalls(parts.pool(1), _nobody), parts.meter, clock)
    least = 1 if may_end(rule) else gate.count or inf
    early = None if gate.every is None else _early(name, gate, firing, parts)
    return SharedIntake(name, least, buffer, runs, fires, partial(source_of, parts.store, app, agent), size, early)


def _early(name: str, gate: Gate, firing: SharedFiring, parts: WorkerDependencies) -> SharedEarly:
    calls, backoff = BackgroundCalls(parts.pool(1), _nobody), Backoff(0.2, 10.0, parts.random)
    clock = parts.clock.monotonic
    return SharedEarly(name, gate, parts.store.buffer, firing, calls, parts.meter, clock, parts.time, backoff)


def source_of(store: Reader, app: str, agent: Agent, place: TopicPartition) -> str:
    """The topic id of a partition that the agent reads. Ids are derived from it."""
    view = store.read(Partition(app, agent.name, *place))
    return place[0] if view is None or view.claim.source is None else view.claim.source.name or place[0]


def gate_of(agent: Agent) -> Gate:
    """The gate of the agent's buffer. Its count is the rule's count or its limit, whichever is lower. Raises
    ConfigurationError."""
    aggregation = aggregation_of(agent)
    most = completion(aggregation).most
    times = (aggregation.since_first, aggregation.since_last)
    first, last = (None if seconds is None else timedelta(seconds=seconds) for seconds in times)
    period = None if aggregation.emit is None else aggregation.emit.every
    every = None if period is None else timedelta(seconds=period)
    return Gate(None if most == inf else int(most), first, last, LEASE, aggregation.deadline is not None, every)


def _handling(
    agent: Agent, rule: Rule, reads: Codec, outputs: OutputTarget, parts: WorkerDependencies
) -> tuple[Handling | None, Policy | None]:
    """The handlers of the agent. They run outside of the commits. The lease of a batch is renewed during a long
    call."""
    handler = agent.handler
    if handler is None:
        return None, None
    if handler.session or handler.then == "park":
        raise ConfigurationError(f"agent {agent.name}: session and then: park need scope partition")
    policy = Policy(handler, parts.random, parts.clock.monotonic)
    pool = parts.pool(max(1, handler.concurrency))
    return Handling(agent, handler, rule, reads, outputs, policy, pool), policy


def _nobody() -> None:
    """Does nothing: the worker's loop needs no wake-up."""
