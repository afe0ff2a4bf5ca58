"""What `check --connect` asks of the systems that a file names."""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from streams.agent import App
from streams.cli.topics import needed
from streams.config import redacted
from streams.config.kafka import EMBEDDED
from streams.errors import PersistenceError, SystemNotReady

RANKS = ("durable", "lossy", "volatile")
SAID = {
    "durable": "durable",
    "lossy": "lossy: exactly-once unless the store loses acknowledged writes",
    "volatile": "volatile: everything is lost when the process ends",
}
PAUSE = 0.5
LONGEST_CALL = 5.0

T = TypeVar("T")


class Finding(NamedTuple):
    """One thing about a system: `ok`, or what it lacks and what to do (`hint`)."""

    system: str
    ok: bool
    text: str
    hint: str = ""


def patiently(app: App, action: Callable[[], T]) -> T:
    """The action's result, tried again for `start_timeout`. Raises what the last try raised."""
    deadline = time.monotonic() + app.start_timeout
    while True:
        try:
            return action()
        except (SystemNotReady, PersistenceError):
            if time.monotonic() + PAUSE > deadline:
                raise
        time.sleep(PAUSE)


def call_timeout(app: App) -> float:
    """Seconds that one request may take."""
    return min(LONGEST_CALL, app.start_timeout)


def inspect(app: App) -> list[Finding]:
    """Store and brokers, each as far as it can be reached."""
    return [*_guarded("store", app, _store), *_guarded("kafka", app, _kafka)]


def _guarded(system: str, app: App, look: Callable[[App], list[Finding]]) -> list[Finding]:
    try:
        return patiently(app, lambda: look(app))
    except (SystemNotReady, PersistenceError) as error:
        return [Finding(system, False, f"is not ready: {error}", "start it, or correct its address")]


def _store(app: App) -> list[Finding]:
    from connectors import open_store

    store = open_store(app.store, app.folder)
    try:
        steps, level = store.migrate(dry_run=True), store.level()
    finally:
        store.close()
    found = [Finding("store", True, f"{redacted(app.store)} answers")]
    if steps and migrates(app):
        found.append(Finding("store", True, f"run will migrate it: {', '.join(steps)}"))
    elif steps:
        found.append(Finding("store", False, f"is not migrated: {', '.join(steps)}", "run `sluicegate migrate FILE`"))
    enough = app.store.startswith("memory:") or RANKS.index(level.name) <= RANKS.index(app.accept_level)
    hint = "" if enough else f"change the store's settings, or write accept_level: {level.name}"
    reasons = "".join(f"; {reason}" for reason in level.reasons)
    return [*found, Finding("store", enough, f"level {SAID[level.name]}{reasons}", hint)]


def migrates(app: App) -> bool:
    """Whether `run` migrates the store by itself."""
    if app.auto_migrate is not None:
        return app.auto_migrate
    return app.store.partition("://")[0] in ("memory", "sqlite", "redis", "rediss")


def _kafka(app: App) -> list[Finding]:
    if app.kafka["bootstrap.servers"] == EMBEDDED:
        return [Finding("kafka", True, "is a broker inside `run`, which makes its topics")]
    from connectors.kafka import admin

    topics = [need.topic for need in needed(app)]
    there = admin.existing(app.kafka, topics, call_timeout(app))
    missing = [topic for topic in topics if there[topic] is None]
    found = [Finding("kafka", True, f"{app.kafka['bootstrap.servers']} answers")]
    if missing:
        found.append(Finding("kafka", False, f"has no topic {', '.join(missing)}", "run `sluicegate topics FILE --create`"))
    for topic, (replicas, insync) in admin.durability(app.kafka, [t for t in topics if there[t]], call_timeout(app)).items():
        facts = f"{there[topic]} partitions, replication {replicas}, min.insync.replicas {insync or 'unknown'}"
        found.append(Finding("kafka", True, f"topic {topic}: {facts}"))
    return found
