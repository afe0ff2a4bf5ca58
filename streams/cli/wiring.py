"""What a run checks before it starts, and the embedded broker: where the supervisor meets the connectors."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import structlog

from sluicegate.connectors import open_store
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.cli import duplicates
from sluicegate.streams.cli.finding import SystemFinding
from sluicegate.streams.cli.systems import SAFER, accepted, call_timeout, fragile, migrates, remedy, said
from sluicegate.streams.cli.topics import written
from sluicegate.streams.cli.waiting import System, kafka_of, store_of, within
from sluicegate.streams.config.kafka import EMBEDDED
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.processes.supervisor import Pause

EMBEDDED_PARTITIONS = 4

T = TypeVar("T")


@contextmanager
def prepare(app: App, agents: Sequence[str], pause: Pause) -> Iterator[App]:
    """Every system reachable and good enough, each given `start_timeout`; the embedded broker runs while this lasts.
    Raises ConfigurationError and SystemNotReady."""
    chosen = [agent for agent in app.agents if agent.name in agents]
    topics = topics_of(chosen)

    def asked(system: System, attempt: Callable[[], T]) -> T:
        return within(app.start_timeout, attempt, pause, system=system, tell=_waiting)

    to_do, level = asked(store_of(app), lambda: _store_facts(app))
    judge_store(app, to_do, level)
    structlog.get_logger().info("store.ready", durability=level.name, reasons=list(level.reasons))
    with _with_broker(app, topics) as ready:
        from sluicegate.connectors.kafka.admin import existing

        kafka = kafka_of(ready)
        found = asked(kafka, lambda: _with_own(ready, chosen, existing(ready.kafka, topics, call_timeout(app))))
        judge_topics(found)
        if ready is app:
            weak = asked(kafka, lambda: _fragile(app, chosen))
            if weak:
                structlog.get_logger().warning("topics.fragile", topics=weak, text=SAFER)
            for short in asked(kafka, lambda: _forgetful(app, chosen)):
                structlog.get_logger().warning("dedupe.short", text=f"{short.text}; {short.hint}")
        yield ready


def _waiting(system: System, left: float, why: str) -> None:
    log = structlog.get_logger()
    log.warning("start.waiting", system=system.name, address=", ".join(system.places), left=f"{left:.0f} s", error=why)


def judge_store(app: App, to_do: Sequence[str], level: Level) -> None:
    """Raises SystemNotReady for a schema that waits for `migrate`, and for a level below the accepted one."""
    if to_do:
        raise SystemNotReady(
            f"the store's schema is not up to date ({', '.join(to_do)}): run `sluicegate migrate FILE`"
        )
    if not accepted(app, level):
        raise SystemNotReady(f"the store is {said(level)}: {remedy(level)}")


def topics_of(agents: Sequence[Agent]) -> list[str]:
    """Every topic that these agents read or write, sorted."""
    return sorted(written(agents).union(*(agent.topics for agent in agents)))


def judge_topics(found: Mapping[str, int | None]) -> None:
    """Raises SystemNotReady naming every topic that is not there."""
    missing = [name for name, partitions in sorted(found.items()) if partitions is None]
    if missing:
        raise SystemNotReady(
            f"no such topic: {', '.join(missing)}; make what is missing with `sluicegate topics FILE --create`"
        )


def _with_own(app: App, agents: Sequence[Agent], found: Mapping[str, int | None]) -> Mapping[str, int | None]:
    """The topics of `repartition:` are ours to make, when their inputs are there: as many partitions as the largest
    input has."""
    own = {agent.to.topic: agent.topics for agent in agents if agent.rekeys and agent.to is not None}
    missing = {topic: max(found[each] or 0 for each in inputs) for topic, inputs in own.items() if found[topic] is None}
    if not missing or not all(missing.values()):
        return found
    from sluicegate.connectors.kafka.admin import create

    made = create(app.kafka, missing)
    structlog.get_logger().info("topics.made", topics=made)
    return {**found, **missing}


def _fragile(app: App, agents: Sequence[Agent]) -> list[str]:
    from sluicegate.connectors.kafka.admin import durability

    found = durability(app.kafka, sorted(written(agents)), call_timeout(app))
    return [topic for topic, (replicas, insync) in found.items() if fragile(replicas, insync)]


def _forgetful(app: App, agents: Sequence[Agent]) -> list[SystemFinding]:
    """Where `dedupe` remembers less than its topics can bring again."""
    from sluicegate.connectors.kafka.admin import existing

    topics = sorted({topic for agent in agents if agent.dedupe for topic in agent.topics})
    there = existing(app.kafka, topics, call_timeout(app)) if topics else {}
    return [found for found in duplicates.findings(app, agents, there, time.time(), call_timeout(app)) if found.hint]


def _store_facts(app: App) -> tuple[Sequence[str], Level]:
    """Migrates if it may; the steps that are still to do, and the level."""
    store = open_store(app.store, app.folder)
    try:
        may = migrates(app)
        steps = store.migrate(dry_run=not may)
        return () if may else steps, store.level()
    finally:
        store.close()


@contextmanager
def _with_broker(app: App, topics: Sequence[str]) -> Iterator[App]:
    if app.kafka.get("bootstrap.servers") != EMBEDDED:
        yield app
        return
    from sluicegate.connectors.kafka.embedded import EmbeddedBroker

    broker = EmbeddedBroker(dict.fromkeys(topics, EMBEDDED_PARTITIONS))
    structlog.get_logger().info("broker.embedded", bootstrap=broker.bootstrap, topics=list(topics))
    try:
        yield replace(app, kafka={**app.kafka, "bootstrap.servers": broker.bootstrap})
    finally:
        broker.close()
