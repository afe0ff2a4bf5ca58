"""One run of J1 on the loop, on the product with one store, or on a peer."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from tests.bench import jobs, load, several, systems
from tests.bench.load import Expected
from tests.bench.peers.peers import NONE, PEERS, Peer, Tools
from tests.bench.systems import LOOP, SERVERS, Running, Work, started

MEMORY, EFFECTS = "none: the state is in memory", "effects exactly once, outputs numbered"
TRANSACTIONAL = "transactional"
OURS = {
    LOOP: NONE,
    "memory": MEMORY,
    **dict.fromkeys(("sqlite", *SERVERS), EFFECTS),
    **dict.fromkeys((f"{store} {TRANSACTIONAL}" for store in ("sqlite", "redis", "postgresql")), "exactly once"),
}
"""The loop and the product, with what each guarantees."""
SYSTEMS = (*OURS, *PEERS)
CLEAN = (0, 143, -15)
"""Exit codes after SIGTERM: of its own accord, of a JVM, and of a program that does not handle it."""


class Input(NamedTuple):
    """A topic with so many records, and what must come of each key."""

    topic: str
    records: int
    expected: Mapping[str, Expected]


def once(system: str, workers: int, bootstrap: str, source: Input, tools: Tools) -> jobs.Outcome:
    """Raises RuntimeError when it gives no results at all."""
    name, _, delivery = system.partition(" ")
    if system in OURS:
        work = Work(bootstrap, source.topic, workers=workers, delivery=delivery)
        return jobs.once(name, work, source.records, source.expected)
    work = Work(bootstrap, source.topic, workers=workers)
    with running(system, work, tools) as run:
        outcome = jobs.measured(run, work, source.expected)
        outcome.problems.extend(jobs.extra(run, work, len(source.expected)))
    return outcome


@contextmanager
def opened(system: str, work: Work, tools: Tools) -> Iterator[Running]:
    """Any of SYSTEMS at work."""
    name, _, delivery = system.partition(" ")
    if system in OURS:
        with systems.running(name, replace(work, delivery=delivery)) as run:
            yield run
    else:
        with running(system, work, tools) as run:
            yield run


@contextmanager
def running(system: str, work: Work, tools: Tools) -> Iterator[Running]:
    """The peer at work. All topics that it makes are removed at the end."""
    app = f"bench-{uuid.uuid4().hex[:8]}"
    with started_peer(app, PEERS[system], work, tools, system) as run:
        yield run


@contextmanager
def started_peer(app: str, peer: Peer, work: Work, tools: Tools, system: str) -> Iterator[Running]:
    """As `running`, for any peer."""

    def command(out: str, folder: Path) -> list[str]:
        settings = {
            "BOOTSTRAP": work.bootstrap,
            "TOPIC": work.topic,
            "OUT": out,
            "GROUP": app,
            "FOLDER": str(folder),
            "THREADS": str(work.workers),
            "COUNT": str(work.count),
            "AFTER": str(work.after),
            **peer.variables,
        }
        environment = {f"BENCH_{name}": value for name, value in settings.items()}
        return several.command(peer.commands(tools, work.workers, folder), CLEAN, environment)

    with ExitStack() as cleaning:
        cleaning.callback(_delete, work.bootstrap, app)
        yield cleaning.enter_context(started(system, work.bootstrap, app, command))


def _delete(bootstrap: str, app: str) -> None:
    """Changelog topics have the name of the app in theirs."""
    known = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=30).topics
    if rest := [topic for topic in known if app in topic]:
        load.delete(bootstrap, *rest)
