"""The checks that `run` makes before it starts, and the embedded broker."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

import structlog

from sluicegate.connectors.kafka import admin
from sluicegate.connectors.kafka.embedded import EmbeddedBroker
from sluicegate.streams import topic_names
from sluicegate.streams.agent import EMBEDDED, Agent, App
from sluicegate.streams.cli.checking import duplicates, newest
from sluicegate.streams.cli.checking.systems import SAFER, accepted, fragile, in_words, migrates, remedy
from sluicegate.streams.cli.deploying.rewinds import rewinds
from sluicegate.streams.cli.opening import registry
from sluicegate.streams.cli.opening.changing import person
from sluicegate.streams.cli.opening.files import connected
from sluicegate.streams.cli.opening.matching import existing, with_matches
from sluicegate.streams.cli.opening.waiting import System, call_timeout, kafka_of, registry_of, store_of, wait_for
from sluicegate.streams.cli.topics import written
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import ConfigurationError, NotPermitted, SystemNotReady
from sluicegate.streams.hints import command, with_near
from sluicegate.streams.operations.deploying import DeployOptions, deploy, note_file
from sluicegate.streams.operations.left_behind import LeftBehind, left_behind, texts
from sluicegate.streams.processes.supervisor import Pause
from sluicegate.streams.topic_names import cluster_of, plain

EMBEDDED_PARTITIONS = 4
AS_RUN = DeployOptions(again=False, leave=True)  # another file may have other agents of the same app

T = TypeVar("T")


@contextmanager
def prepare(
    app: App,
    agents: Sequence[str],
    pause: Pause,
    options: DeployOptions = AS_RUN,
    leave: Collection[str] = (),
    started: Callable[[App], None] = lambda app: None,
) -> Iterator[App]:
    """Waits up to `start_timeout` for each system and checks it, and records the rules that were never deployed. The
    embedded broker runs while the block does. `leave`: agents whose groups may stay in the store without a worker.
    `started` gets the app for the workers, which has the broker's address. Raises ConfigurationError and
    SystemNotReady."""
    log = structlog.get_logger()

    def asked(system: System, attempt: Callable[[], T]) -> T:
        return wait_for(app.start_timeout, attempt, pause, system=system, tell=_waiting)

    to_do, level = asked(store_of(app), lambda: _store_facts(app))
    judge_store(app, to_do, level)
    log.info("store.ready", durability=level.name, reasons=list(level.reasons))
    app = _with_versions(app, agents, options, pause)
    chosen = [agent for agent in app.agents if agent.name in agents]
    topics = sorted({*topics_of(chosen), *(schedule.topic for schedule in app.schedules)})
    with _with_broker(app, topics) as ready:
        kafka, timeout = kafka_of(ready), call_timeout(app)
        judge_registry(chosen)
        counts = asked(kafka, lambda: _with_own(ready, chosen, admin.existing(ready.brokers, topics, timeout)))
        judge_topics(counts, written(ready.agents))
        if orphans := asked(store_of(app), lambda: _left_behind(app)):
            if ready is app:  # no other run shares a broker inside this one
                orphans = asked(kafka, lambda: _without_workers(app, orphans, timeout))
            judge_left(app, orphans, leave)
        asked(store_of(app), lambda: record(app, agents, options))
        if ready is app:
            if weak := asked(kafka, lambda: _fragile(app, chosen)):
                log.warning("topics.fragile", topics=weak, text=SAFER)
            for short in asked(kafka, lambda: _forgetful(app, chosen)):
                log.warning("dedupe.short", text=short)
        started(ready)
        yield ready


def _with_versions(app: App, agents: Sequence[str], options: DeployOptions, pause: Pause) -> App:
    """The app with a version for each `schema: SUBJECT:latest`. It is the version that the deployment chose; without a
    deployment, or for a new one, the newest version. While the registry is away, a new deployment keeps the version."""

    def asked(system: System, attempt: Callable[[], App]) -> App:
        return wait_for(app.start_timeout, attempt, pause, system=system, tell=_waiting)

    deployed_app = asked(store_of(app), lambda: newest.deployed(app, agents))
    wanted = app if options.again else deployed_app
    if not newest.is_open(wanted, agents):
        return deployed_app
    try:
        return asked(registry_of(app), lambda: newest.chosen(wanted, agents))
    except SystemNotReady as error:
        if newest.is_open(deployed_app, agents):
            raise
        structlog.get_logger().warning("schema.kept", error=str(error))
        return deployed_app


def _waiting(system: System, remaining: float, why: str) -> None:
    log = structlog.get_logger()
    log.warning(
        "start.waiting", system=system.name, address=", ".join(system.places), left=f"{remaining:.0f} s", error=why
    )


def judge_store(app: App, to_do: Sequence[str], level: Level) -> None:
    """Raises SystemNotReady for a schema that needs `migrate`, and for a level below the accepted one."""
    if to_do:
        raise SystemNotReady(
            f"the store's schema is not up to date: run {command('migrate FILE')}, which makes: {'; '.join(to_do)}"
        )
    if not accepted(app, level):
        raise SystemNotReady(f"the store is {in_words(level)}: {remedy(level)}")


def _left_behind(app: App) -> list[LeftBehind]:
    if app.store.startswith("memory:"):
        return []
    with connected(app) as store:
        return left_behind(store, app)


def _without_workers(app: App, orphans: Sequence[LeftBehind], timeout: float) -> list[LeftBehind]:
    """State that no run of another file processes. An agent whose groups may not be described counts as without a
    worker."""
    working = set()
    for name, cluster in {(orphan.partition.agent, cluster_of(orphan.partition.topic)) for orphan in orphans}:
        if cluster not in app.brokers.names:
            continue
        with suppress(NotPermitted):
            group = f"{app.name}.{name}"
            working |= {name} if admin.members(app.brokers.of(cluster), [group], timeout)[group] else set()
    return [orphan for orphan in orphans if orphan.partition.agent not in working]


def judge_left(app: App, orphans: Sequence[LeftBehind], leave: Collection[str]) -> None:
    """Raises ConfigurationError for state without a worker, unless its agent is in `leave`."""
    by_agent = texts(app, orphans)
    if refused := [f"{text}, or add --leave {name}" for name, text in by_agent.items() if name not in leave]:
        raise ConfigurationError("; ".join(refused))
    for text in by_agent.values():
        structlog.get_logger().warning("groups.left_behind", text=text)


def record(app: App, agents: Sequence[str], options: DeployOptions) -> None:
    """Makes the rules of these agents versions of the store, according to `options`, and notes the other keys of the
    running file. Raises ConfigurationError, and the errors of the store. A store in memory has no versions: its state
    ends with the run."""
    if app.store.startswith("memory:"):
        return
    with connected(app) as store, rewinds(app, store, options.policy) as check:
        who = person("sluicegate run")
        steps, _ = deploy(store, app, agents, replace(options, rewinds=check), who)
        note_file(store, app, agents, who)
    for step in steps:
        if step.before != step.after:
            structlog.get_logger().info("rule.deployed", agent=step.name, version=step.after, policy=step.policy)


def judge_registry(agents: Sequence[Agent]) -> None:
    """Raises SystemNotReady if the schema registry refuses a schema of the agents' outputs. If it is away, the workers
    ask it again; they may know the schemas from the store."""
    if refused := list(registry.refusals(agents)):
        raise SystemNotReady("; ".join(refused))


def topics_of(agents: Sequence[Agent]) -> list[str]:
    """Every topic that these agents read, look up or write by its name, sorted."""
    return sorted(written(agents).union(*((*topic_names.topics(agent.topics), *agent.tables) for agent in agents)))


def judge_topics(counts: Mapping[str, int | None], outputs: Set[str] = frozenset()) -> None:
    """Raises SystemNotReady with every topic that does not exist, and the output that its name may be a misspelling
    of."""
    missing = [name for name, partitions in sorted(counts.items()) if partitions is None]
    if missing:
        raise SystemNotReady(
            f"no such topic: {with_near(missing, outputs)}; make what is missing with {command('topics FILE --create')}"
        )


def _with_own(app: App, agents: Sequence[Agent], counts: Mapping[str, int | None]) -> Mapping[str, int | None]:
    """`counts` with the topics of `repartition:`. They are created when their inputs exist, with as many partitions as
    the largest input."""
    own: dict[str, list[str]] = {}
    for agent in agents:
        if agent.rekeys and agent.to is not None and counts[agent.to.topic] is None:
            own.setdefault(agent.to.topic, []).extend(agent.topics)
    patterns = topic_names.patterns([name for inputs in own.values() for name in inputs])
    topics = topic_names.matching(patterns, existing(app)) if patterns else []
    known = {**counts, **(admin.existing(app.brokers, topics, call_timeout(app)) if topics else {})}
    missing = {
        topic: max((known[name] or 0 for name in topic_names.matching(inputs, known)), default=0)
        for topic, inputs in own.items()
    }
    if not missing or not all(missing.values()):
        return counts
    structlog.get_logger().info("topics.made", topics=admin.create(app.brokers, missing))
    return {**counts, **missing}


def _fragile(app: App, agents: Sequence[Agent]) -> list[str]:
    """Output topics that can lose acknowledged records."""
    durability = admin.durability(app.brokers, sorted(written(agents)), call_timeout(app))
    return [topic for topic, (replicas, insync) in durability.items() if fragile(replicas, insync)]


def _forgetful(app: App, agents: Sequence[Agent]) -> list[str]:
    """The agents whose `dedupe` remembers ids for a shorter time than its topics keep records."""
    app = with_matches(app)
    agents = [agent for agent in app.agents if agent.name in {runner.name for runner in agents}]
    topics = sorted({topic for agent in agents if agent.dedupe for topic in agent.topics})
    timeout = call_timeout(app)
    there = admin.existing(app.brokers, topics, timeout) if topics else {}
    findings = duplicates.findings(app, agents, there, time.time(), timeout)
    return [f"{finding.text}; {finding.hint}" for finding in findings if finding.hint]


def _store_facts(app: App) -> tuple[Sequence[str], Level]:
    with connected(app) as store:
        return store_facts(app, store)


def store_facts(app: App, store: Store) -> tuple[Sequence[str], Level]:
    """The steps that `sluicegate migrate` must still run, and the level. Migrates the store where `run` may."""
    may = migrates(app)
    steps = store.migrate(dry_run=not may)
    return () if may else steps, store.level()


@contextmanager
def _with_broker(app: App, topics: Sequence[str]) -> Iterator[App]:
    if not app.embedded:
        yield app
        return
    with ExitStack() as brokers:
        ready = app.brokers
        for cluster in ready.names:
            of = ready.others[cluster] if cluster else ready
            if of["bootstrap.servers"] == EMBEDDED:
                own = [plain(topic) for topic in topics if cluster_of(topic) == cluster]
                broker = brokers.enter_context(closing(EmbeddedBroker(dict.fromkeys(own, EMBEDDED_PARTITIONS))))
                structlog.get_logger().info("broker.embedded", bootstrap=broker.bootstrap, topics=own)
                of["bootstrap.servers"] = broker.bootstrap
        yield replace(app, kafka=dict(ready), clusters=ready.others)
