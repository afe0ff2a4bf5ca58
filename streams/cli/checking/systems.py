"""The checks of the systems in a file, and the limits of these checks."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from sluicegate.connectors.kafka import admin
from sluicegate.connectors.kafka.clusters.routed import open_history
from sluicegate.connectors.kafka.transactions import open_transactions
from sluicegate.streams.agent import App, Lookup
from sluicegate.streams.cli.checking import brokers, duplicates, message_sizes
from sluicegate.streams.cli.opening import registry
from sluicegate.streams.cli.opening.files import connected
from sluicegate.streams.cli.opening.matching import existing, with_matches
from sluicegate.streams.cli.opening.waiting import System, call_timeout, kafka_of, store_of, wait_for
from sluicegate.streams.cli.terminal.finding import SystemFinding
from sluicegate.streams.cli.topics import needed, tables, written
from sluicegate.streams.config import redacted
from sluicegate.streams.config.sections.fields import REDIS
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import LEVELS, Level, Partition
from sluicegate.streams.errors import LookupFailed, SystemNotReady
from sluicegate.streams.hints import command, with_near
from sluicegate.streams.topic_names import by_pattern, matching, of_input, pattern_of, patterns
from sluicegate.streams.wording import counted

LEVEL_WORDS = {
    "durable": "durable",
    "lossy": "lossy: exactly-once unless the store loses acknowledged writes",
    "volatile": "volatile: everything is lost when the process ends",
}
MOST_NAMED = 20  # topics that one line names
LONGEST_WAIT = 3.0  # seconds that `check --connect` waits for a system
UNUSED = 2**31 - 1  # a partition that no topic has
SAFER = "acknowledged records may be lost with one broker: replication 3 and min.insync.replicas 2 prevent it"


def accepted(app: App, level: Level) -> bool:
    """Whether the file lets this level run. `memory://` is volatile by its name and needs no acceptance."""
    return app.store.startswith("memory:") or LEVELS.index(level.name) <= LEVELS.index(app.accept_level)


def in_words(level: Level) -> str:
    """The level and its reasons, as text."""
    return "; ".join([LEVEL_WORDS[level.name], *level.reasons])


def remedy(level: Level) -> str:
    return f"change the store's settings, or write `accept_level: {level.name}`"


def inspect(app: App) -> list[SystemFinding]:
    """Asks the store, the brokers and the schema registry at the same time. Waits at most LONGEST_WAIT seconds for a
    system that is down."""
    with ThreadPoolExecutor(3) as pool:
        store = pool.submit(_guarded, "store", store_of(app), app, _store)
        kafka = pool.submit(_guarded, "kafka", kafka_of(app), app, _kafka)
        registry_findings = pool.submit(registry.findings, app)
        return [*store.result(), *kafka.result(), *registry_findings.result()]


def _guarded(name: str, system: System, app: App, look: Callable[[App], list[SystemFinding]]) -> list[SystemFinding]:
    try:
        return wait_for(min(app.start_timeout, LONGEST_WAIT), lambda: look(app), system=system)
    except SystemNotReady as error:
        return [SystemFinding(name, False, str(error))]


def _store(app: App) -> list[SystemFinding]:
    with connected(app) as store:
        steps, level = store.migrate(dry_run=True), store.level()
        looked_up = [*_unchecked(app)] if steps else [*_others(app, store), *_lookups(app, store)]
    results = [SystemFinding("store", True, f"{redacted(app.store)} can be used")]
    if steps and migrates(app):
        results.append(SystemFinding("store", True, f"run will migrate it: {', '.join(steps)}"))
    elif steps:
        text = f"is not migrated: {', '.join(steps)}"
        results.append(SystemFinding("store", False, text, f"run {command('migrate FILE')}"))
    enough = accepted(app, level)
    results.append(SystemFinding("store", enough, f"level {in_words(level)}", "" if enough else remedy(level)))
    return results + looked_up


def _others(app: App, store: Store) -> Iterator[SystemFinding]:
    """Timeouts and outbox rows without an app belong to the store: each app sends and shows them."""
    others = [name for name in store.apps() if name != app.name]
    if others:
        text = f"also has the state of {', '.join(others)}: each of these apps sees, sends and cancels the timeouts "
        text += "and outbox rows that name no app"
        yield SystemFinding("store", True, text, "give each app a database of its own, unless they are meant to share")


def _unchecked(app: App) -> Iterator[SystemFinding]:
    names = [f"{lookup.name} of agent {agent.name}" for agent in app.agents for lookup in agent.lookups]
    if names:
        yield SystemFinding("store", True, f"not checked before it is migrated: the lookups {', '.join(names)}")


def _lookups(app: App, store: Store) -> list[SystemFinding]:
    """Runs each lookup without a key. Only tables can be wrong, because collections and hashes have no schema."""
    return [_lookup(agent.name, lookup, store) for agent in app.agents for lookup in agent.lookups]


def _lookup(agent: str, lookup: Lookup, store: Store) -> SystemFinding:
    try:
        with store.transaction() as session:
            store.look_up(session, lookup, [])
    except LookupFailed as error:
        text, _, hint = str(error).rpartition("; ")
        return SystemFinding("store", False, f"agent {agent}: {text}", hint)
    return SystemFinding("store", True, f"agent {agent} can look up {lookup.name}")


def migrates(app: App) -> bool:
    """Whether `run` migrates the store by itself."""
    if app.auto_migrate is not None:
        return app.auto_migrate
    return app.store.partition("://")[0] in ("memory", "sqlite", *REDIS)


def _kafka(app: App) -> list[SystemFinding]:
    if app.embedded:
        return [SystemFinding("kafka", True, "is a broker inside `run`, which makes its topics")]
    matched = [*_matches(app)]
    app = with_matches(app)
    topics = [need.topic for need in needed(app)]
    timeout = call_timeout(app)
    there = admin.existing(app.brokers, topics, timeout)
    missing = [topic for topic in topics if there[topic] is None]
    results = [*_answers(app), *matched]
    results += brokers.findings(app, timeout)
    if missing:
        text = f"has no topic {with_near(missing, written(app.agents))}"
        results.append(SystemFinding("kafka", False, text, f"run {command('topics FILE --create')}"))
    durability = admin.durability(app.brokers, [topic for topic in topics if there[topic]], timeout)
    for topic, (replicas, insync) in durability.items():
        text = f"topic {topic}: {counted(there[topic] or 0, 'partition')}, replication {replicas}, min.insync.replicas "
        hint = SAFER if topic in written(app.agents) and fragile(replicas, insync) else ""
        results.append(SystemFinding("kafka", True, f"{text}{insync or 'unknown'}", hint))
    results += [*_tables(app, [topic for topic in sorted(tables(app)) if there[topic]]), *_transactions(app)]
    results += message_sizes.findings(app, there, timeout)
    return results + duplicates.findings(app, app.agents, there, time.time(), timeout)


def _answers(app: App) -> Iterator[SystemFinding]:
    """Whether each cluster answers. Of several clusters, each is named."""
    for cluster in app.brokers.names:
        of = app.brokers.of(cluster)
        named = f"cluster {of.name}: " if app.clusters else ""
        yield SystemFinding("kafka", True, f"{named}{of['bootstrap.servers']} answers")


def _matches(app: App) -> Iterator[SystemFinding]:
    """The topics that match the patterns of the file now."""
    names = existing(app) if by_pattern(app) else []
    for agent in app.agents:
        for name in patterns(agent.topics):
            topics = matching([name], names)
            first = ", ".join(topics[:MOST_NAMED]) + (", ..." if len(topics) > MOST_NAMED else "")
            text = f"agent {agent.rekeys or agent.name}: {pattern_of(name)} matches {first or 'no topic yet'}"
            hint = "" if topics else "correct the pattern, unless topics are still to come: the agent waits for them"
            yield SystemFinding("kafka", True, text, hint)


def _tables(app: App, topics: Sequence[str]) -> Iterator[SystemFinding]:
    """Looked-up topics must keep the newest record of each key."""
    if not topics:
        return
    with closing(open_history(app.brokers, f"{app.name}.check")) as history:
        compacted = history.compacted(topics)
    for topic in topics:
        text = f"topic {topic} is looked up: it is {'' if topic in compacted else 'not '}compacted"
        hint = "" if topic in compacted else "set cleanup.policy to compact, or rows disappear with their records"
        yield SystemFinding("kafka", True, text, hint)


def _transactions(app: App) -> list[SystemFinding]:
    """Whether the agents with `delivery: transactional` may open transactions: tries it for a partition that does not
    exist."""
    agents = [agent for agent in app.agents if agent.delivery == "transactional"]
    if not agents:
        return []
    for agent in agents:
        opener = open_transactions(app.brokers.of(of_input(agent.topics)), app.name, agent.name)
        first = next(iter(agent.topics), "none")
        with closing(opener(Partition(app.name, agent.name, first, UNUSED))) as transactions:
            transactions.open()
    return [SystemFinding("kafka", True, f"transactions can be opened for {', '.join(agent.name for agent in agents)}")]


def fragile(replicas: int, insync: int | None) -> bool:
    """Whether acknowledged records can be lost with one broker. An unknown setting counts as yes."""
    return replicas < 2 or insync is None or insync < 2
