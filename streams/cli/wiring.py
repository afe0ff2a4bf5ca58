"""What a run checks before it starts, and the embedded broker: where the supervisor meets the connectors."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import structlog

from connectors import open_store
from streams.agent import Agent, App
from streams.cli.systems import RANKS, SAID, call_timeout, migrates
from streams.config.kafka import EMBEDDED
from streams.engine.backoff import Backoff
from streams.engine.supervisor import Pause
from streams.errors import PersistenceError, SystemNotReady
from streams.values import Level

T = TypeVar("T")

EMBEDDED_PARTITIONS = 4


@contextmanager
def prepare(app: App, agents: Sequence[str], pause: Pause) -> Iterator[App]:
    """Every system reachable and good enough, each given `start_timeout`; the embedded broker runs while this lasts.
    Raises ConfigurationError and SystemNotReady."""
    topics = topics_of([agent for agent in app.agents if agent.name in agents])
    to_do, level = within(app.start_timeout, lambda: _store_facts(app), pause)
    judge_store(app, to_do, level)
    structlog.get_logger().info("store.ready", level=level.name, reasons=list(level.reasons))
    with _with_broker(app, topics) as ready:
        from connectors.kafka.admin import existing

        judge_topics(within(app.start_timeout, lambda: existing(ready.kafka, topics, call_timeout(app)), pause))
        yield ready


def within(seconds: float, attempt: Callable[[], T], pause: Pause, clock: Callable[[], float] = time.monotonic) -> T:
    """The result of `attempt`, tried again while a system does not answer. Raises SystemNotReady with the last reason
    after `seconds`."""
    deadline = clock() + seconds
    backoff = Backoff(0.1, 2.0, lambda: 1.0)
    while True:
        try:
            return attempt()
        except (PersistenceError, SystemNotReady) as error:
            left = deadline - clock()
            if left <= 0:
                raise SystemNotReady(f"{error} (tried for {seconds:g} s)") from error
        pause(min(backoff.delay(), left))


def judge_store(app: App, to_do: Sequence[str], level: Level) -> None:
    """Raises SystemNotReady for a schema that waits for `migrate`, and for a level below the accepted one. Memory is
    volatile by its name and needs no acceptance."""
    if to_do:
        raise SystemNotReady(f"the store's schema is not up to date ({', '.join(to_do)}): run `sluicegate migrate FILE`")
    if app.store.startswith("memory:") or RANKS.index(level.name) <= RANKS.index(app.accept_level):
        return
    found = "; ".join(level.reasons) or "no reason given"
    raise SystemNotReady(f"the store is {SAID[level.name]} ({found}): mend its settings, or write `accept_level: {level.name}`")


def topics_of(agents: Sequence[Agent]) -> list[str]:
    """Every topic that these agents read or write, sorted."""
    return sorted({topic for agent in agents for topic in (*agent.topics, agent.to.topic, agent.dead_letters)})


def judge_topics(found: Mapping[str, int | None]) -> None:
    """Raises SystemNotReady naming every topic that is not there."""
    missing = [name for name, partitions in sorted(found.items()) if partitions is None]
    if missing:
        raise SystemNotReady(f"no such topic: {', '.join(missing)}; make what is missing with `sluicegate topics FILE --create`")


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
    from connectors.kafka.embedded import EmbeddedBroker

    broker = EmbeddedBroker(dict.fromkeys(topics, EMBEDDED_PARTITIONS))
    structlog.get_logger().info("broker.embedded", bootstrap=broker.bootstrap, topics=list(topics))
    try:
        yield replace(app, kafka={**app.kafka, "bootstrap.servers": broker.bootstrap})
    finally:
        broker.close()
