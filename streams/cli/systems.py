"""What the commands ask of the systems that a file names, how long they wait for them, and what is good enough."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sluicegate.streams.agent import App
from sluicegate.streams.cli import duplicates
from sluicegate.streams.cli.finding import SystemFinding
from sluicegate.streams.cli.topics import needed, written
from sluicegate.streams.cli.waiting import System, kafka_of, store_of, within
from sluicegate.streams.config import redacted
from sluicegate.streams.config.fields import REDIS
from sluicegate.streams.config.kafka import EMBEDDED
from sluicegate.streams.contracts.values import LEVELS, Level, Partition
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.wording import counted

SAID = {
    "durable": "durable",
    "lossy": "lossy: exactly-once unless the store loses acknowledged writes",
    "volatile": "volatile: everything is lost when the process ends",
}
LONGEST_CALL = 5.0
ASKED = 3.0
CHECKED = 2**31 - 1  # no topic has so many partitions
SAFER = "one broker that dies may take acknowledged records along: replication 3 and min.insync.replicas 2 prevent it"


def accepted(app: App, level: Level) -> bool:
    """Whether the file lets this level run. Memory is volatile by its name and needs no acceptance."""
    return app.store.startswith("memory:") or LEVELS.index(level.name) <= LEVELS.index(app.accept_level)


def said(level: Level) -> str:
    """The level and its reasons in words."""
    return "; ".join([SAID[level.name], *level.reasons])


def remedy(level: Level) -> str:
    return f"change the store's settings, or write `accept_level: {level.name}`"


def call_timeout(app: App) -> float:
    """Seconds that one request may take."""
    return min(LONGEST_CALL, app.start_timeout)


def inspect(app: App) -> list[SystemFinding]:
    """Store and brokers at the same time, each as far as it can be reached. It asks whether they are ready now: a
    system that is down is waited for only ASKED seconds."""
    asked = replace(app, start_timeout=min(app.start_timeout, ASKED))
    with ThreadPoolExecutor(2) as pool:
        store = pool.submit(_guarded, "store", store_of(app), asked, lambda: _store(app))
        kafka = pool.submit(_guarded, "kafka", kafka_of(app), asked, lambda: _kafka(app))
        return [*store.result(), *kafka.result()]


def _guarded(name: str, system: System, app: App, look: Callable[[], list[SystemFinding]]) -> list[SystemFinding]:
    try:
        return within(app.start_timeout, look, system=system)
    except SystemNotReady as error:
        return [SystemFinding(name, False, str(error))]


def _store(app: App) -> list[SystemFinding]:
    from sluicegate.connectors import open_store

    store = open_store(app.store, app.folder)
    try:
        steps, level = store.migrate(dry_run=True), store.level()
    finally:
        store.close()
    found = [SystemFinding("store", True, f"{redacted(app.store)} can be used")]
    if steps and migrates(app):
        found.append(SystemFinding("store", True, f"run will migrate it: {', '.join(steps)}"))
    elif steps:
        found.append(
            SystemFinding("store", False, f"is not migrated: {', '.join(steps)}", "run `sluicegate migrate FILE`")
        )
    enough = accepted(app, level)
    return [*found, SystemFinding("store", enough, f"level {said(level)}", "" if enough else remedy(level))]


def migrates(app: App) -> bool:
    """Whether `run` migrates the store by itself."""
    if app.auto_migrate is not None:
        return app.auto_migrate
    return app.store.partition("://")[0] in ("memory", "sqlite", *REDIS)


def _kafka(app: App) -> list[SystemFinding]:
    if app.kafka["bootstrap.servers"] == EMBEDDED:
        return [SystemFinding("kafka", True, "is a broker inside `run`, which makes its topics")]
    from sluicegate.connectors.kafka import admin

    topics = [need.topic for need in needed(app)]
    there = admin.existing(app.kafka, topics, call_timeout(app))
    missing = [topic for topic in topics if there[topic] is None]
    found = [SystemFinding("kafka", True, f"{app.kafka['bootstrap.servers']} answers")]
    if missing:
        found.append(
            SystemFinding("kafka", False, f"has no topic {', '.join(missing)}", "run `sluicegate topics FILE --create`")
        )
    for topic, (replicas, insync) in admin.durability(
        app.kafka, [t for t in topics if there[t]], call_timeout(app)
    ).items():
        facts = (
            f"{counted(there[topic] or 0, 'partition')}, replication {replicas}, min.insync.replicas "
            f"{insync or 'unknown'}"
        )
        hint = SAFER if topic in written(app.agents) and fragile(replicas, insync) else ""
        found.append(SystemFinding("kafka", True, f"topic {topic}: {facts}", hint))
    found += _transactions(app)
    return found + duplicates.findings(app, app.agents, there, time.time(), call_timeout(app))


def _transactions(app: App) -> list[SystemFinding]:
    """Whether the brokers let each agent with `delivery: transactional` open transactions: tried under a name that no
    shard has."""
    agents = [agent for agent in app.agents if agent.delivery == "transactional"]
    if not agents:
        return []
    from sluicegate.connectors.kafka.transactions import open_transactions

    for agent in agents:
        tried = open_transactions(app.kafka, app.name, agent.name)(
            Partition(app.name, agent.name, agent.topics[0], CHECKED)
        )
        try:
            tried.open()
        finally:
            tried.close()
    return [SystemFinding("kafka", True, f"transactions can be opened for {', '.join(agent.name for agent in agents)}")]


def fragile(replicas: int, insync: int | None) -> bool:
    """Can what the brokers acknowledged be lost with one of them? What they do not say counts as yes."""
    return replicas < 2 or insync is None or insync < 2
