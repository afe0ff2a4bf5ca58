"""The test driver: an app on the real engine without a broker, a server or waiting."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, App
from sluicegate.streams.contracts.record import Headers
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import PartitionView
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.hints import did_you_mean
from sluicegate.streams.testing.deaths import DeathKind, Deaths
from sluicegate.streams.testing.files import opened
from sluicegate.streams.testing.group import Group, groups
from sluicegate.streams.testing.hashing import partition_of
from sluicegate.streams.testing.log import Log, ManualClock
from sluicegate.streams.testing.outputs import OutputReader, ReadOutput, sender, sent_by_us
from sluicegate.streams.testing.stores import StoreSetup, TestStore
from sluicegate.streams.testing.workers import Workers, on_path, path_of
from sluicegate.streams.topic_names import reads
from sluicegate.streams.units import duration

HeaderValues = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]


class TestDriver:
    """Feeds records, moves the clock, reads the outputs. Each call returns when no agent has anything left to do.

    `app` is an App or the path of a declarative file; its `kafka:` and `store:` are not used. Every topic has
    `partitions`, every agent `workers`. The state is in memory; in a SQLite file when a handler has an SQL session or
    a `setup` makes tables; or in `store`, whose own time only decides whether scheduled messages are due. Times are
    seconds. The clock begins at 2026-01-01 and stands still until `advance`.
    """

    __test__ = False  # pytest must not collect it

    def __init__(
        self,
        app: App | str | Path,
        workers: int = 1,
        partitions: int = 4,
        *,
        store: Store | None = None,
        deaths: Deaths | None = None,
        setup: StoreSetup | Sequence[StoreSetup] = (),
    ) -> None:
        if workers < 1 or partitions < 1:
            raise ConfigurationError("workers and partitions must be at least 1")
        self.app = opened(app)
        self.clock, self.log = ManualClock(), Log(partitions=partitions)
        self.deaths = deaths or Deaths()
        self._test_store = TestStore(self.app, self.clock, setup, store)
        self._store = self._test_store.store
        self._folder = self.app.folder if on_path(self.app.folder) else None
        self._outputs = OutputReader(self.app)
        self._tables = {topic for agent in self.app.agents for topic in agent.tables}
        self._taken: dict[str, int] = {}
        self._seen: set[tuple[str, object]] = set()
        self._workers = Workers(self.app, workers, self.log, self._store, self.clock, self.deaths)
        try:
            self._workers.settle()
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._release()
        if kind is None:
            self._check_crashes()

    def close(self) -> None:
        """Raises AssertionError when a crash was asked for and its place was never reached."""
        self._release()
        self._check_crashes()

    # -- what goes in ------------------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: object,
        key: str | bytes | None = None,
        headers: HeaderValues = (),
        timestamp: float | None = None,
        partition: int | None = None,
        times: int = 1,
    ) -> None:
        """Sends bytes as they are, None as a null value, and anything else in the format of the agent that reads the
        topic, which is JSON where the topic is only looked up. A topic that the pattern of an agent matches is made
        with its first record. The key chooses the partition as in Kafka; without a key it is 0. `timestamp` is the
        record's own time, else the clock's; `times` copies are sent at once. Raises ConfigurationError."""
        reader = next((agent for agent in self.app.agents if reads(agent.topics, topic)), None)
        if reader is None and topic not in self._tables:
            known = sorted({*(topic for agent in self.app.agents for topic in agent.topics), *self._tables})
            raise ConfigurationError(f"no agent reads {topic!r}; {did_you_mean(topic, known)}")
        count = self.log.count(topic)
        name = key.encode() if isinstance(key, str) else key
        number = partition if partition is not None else partition_of(name, count) if name is not None else 0
        if not 0 <= number < count:
            raise ConfigurationError(f"{topic} has {count} partitions, so there is no partition {number}")
        carried = _headers(headers)
        written = formats.record_value(reader, value, carried)
        at = int((self.clock.time() if timestamp is None else timestamp) * 1000)
        for _ in range(times):
            self.log.append(topic, number, name, written, carried, at)
        self._workers.settle()

    def advance(self, by: float | str) -> None:
        """Moves the clock by seconds, or by a duration such as "30s", from deadline to deadline."""
        seconds = duration(by) if isinstance(by, str) else by
        if seconds is None or seconds < 0:
            raise ConfigurationError(
                f"{by!r} is not a time to advance by; write seconds, or a number and ms, s, m, h or d, such as '30s'"
            )
        self._workers.advance(seconds)

    def put_row(self, source: str, key: str | int, value: Mapping[str, Any] | None) -> None:
        """Writes a row that lookups find from now on; None deletes it. `source` is the table, the collection or the
        hash of a lookup. In a SQLite file, which a `setup` makes, it is a row of that table. Raises
        ConfigurationError."""
        self._test_store.put_row(source, key, value)
        self._workers.settle()

    def replace_handler(self, agent: str, *functions: str | Callable[..., object]) -> None:
        """From now on, calls these functions in place of the handler of the agent. Each is a function, or its
        `module:function`, and takes parameters as a handler does. Raises ConfigurationError."""
        if self._agent(agent).handler is None:
            raise ConfigurationError(f"agent {agent} has no handler")
        self._workers.replace_handlers({agent: tuple(map(path_of, functions))})
        self._workers.settle()

    def deploy(self, app: App | str | Path, open: str | None = None) -> None:
        """Makes the rules of another file the ones that run, as `sluicegate deploy`. A relative path starts at the
        folder of the app. `open` is finish, convert, rewind, flush or drop: what happens to open groups. Raises
        ConfigurationError for what `sluicegate deploy` refuses."""
        changed = opened(app if isinstance(app, App) else Path(self.app.folder, app))
        if changed.name != self.app.name:
            raise ConfigurationError(f"{changed.name} is another app than {self.app.name}: nothing is carried over")
        self._workers.deploy(changed, open)
        self.app, self._outputs = changed, OutputReader(changed, self._outputs)
        self._tables = {topic for agent in changed.agents for topic in agent.tables}
        self._workers.settle()

    def crash(self, where: str | None = None, kind: DeathKind = "kill") -> None:
        """The process dies now, or when it next reaches a place (sluicegate.streams.testing.deaths.PLACES), and starts
        again on its store. `kind` lost: it lives, but the store does not answer there."""
        if where is None:
            self._workers.die()
            self._workers.settle()
        else:
            self.deaths.plan(where, kind)

    # -- what comes out ----------------------------------------------------------------------------------------------

    def read(self, topic: str) -> list[ReadOutput]:
        """The outputs since the last read of this topic, each once: as a receiver that drops repeats sees them."""
        messages = self.log.order.get(self._known(topic), [])
        fresh = []
        for message in sent_by_us(messages[self._taken.get(topic, 0) :]):
            repeat = (topic, sender(message))
            if repeat not in self._seen:
                self._seen.add(repeat)
                fresh.append(message)
        self._taken[topic] = len(messages)
        return [self._outputs.output(message) for message in fresh]

    def sent(self, topic: str) -> list[ReadOutput]:
        """All outputs, including repeated ones."""
        return [self._outputs.output(message) for message in sent_by_us(self.log.order.get(self._known(topic), []))]

    def dead_letters(self, topic: str | None = None) -> list[ReadOutput]:
        """As `read`, from one dead-letter topic or all of them."""
        topics = [topic] if topic is not None else self.dead_letter_topics
        return [letter for topic in topics for letter in self.read(topic)]

    @property
    def output_topics(self) -> list[str]:
        """The topics that agents have written so far, and those that the app names, sorted."""
        written = {topic for topic, messages in self.log.order.items() if sent_by_us(messages)}
        return sorted({*self._outputs.topics, *written})

    @property
    def dead_letter_topics(self) -> list[str]:
        return self._outputs.dead_letter_topics

    # -- what is held ------------------------------------------------------------------------------------------------

    def groups(self, agent: str) -> list[Group]:
        """The open groups by partition, oldest first."""
        described = self._agent(agent)
        return [group for view in self._views(agent) for group in groups(described, view, self._store)]

    def offsets(self, agent: str) -> dict[tuple[str, int], int]:
        """The committed offset of each partition that was read."""
        claims = [view.claim for view in self._views(agent)]
        return {(claim.partition.topic, claim.partition.number): claim.offset for claim in claims if claim.offset > 0}

    def troubles(self) -> list[str]:
        """The reasons why partitions do not continue: they are halted, or wait for another attempt."""
        reports = self._workers.reports()
        halted = [p for report in reports for p in report.partitions if p.state == "halted"]
        stopped = [f"{p.topic}/{p.number} stopped: {p.error}: {p.detail}" for p in halted]
        return stopped + [reason for report in reports for reason in report.reasons if not reason.startswith("halted ")]

    def counts(self, agent: str) -> Mapping[tuple[str, tuple[str, ...]], float]:
        """The counters of an agent since the begin of the test, by the metric's name and the values of its labels."""
        return self._workers.counts(self._agent(agent).name)

    @property
    def values(self) -> dict[str, Any]:
        """The values that handlers wrote through their sessions of the memory store."""
        return dict(cast(Any, self._store).values)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query on the tables of the test. Raises ConfigurationError."""
        return self._test_store.rows(sql)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _views(self, agent: str) -> list[PartitionView]:
        wanted = self._agent(agent).name
        mine = [p for p in self._store.partitions(self.app.name) if p.agent == wanted]
        return [view for view in map(self._store.read, mine) if view is not None]

    def _agent(self, name: str) -> Agent:
        agents = {agent.name: agent for agent in self.app.agents}
        if name not in agents:
            raise ConfigurationError(f"there is no agent {name!r}; {did_you_mean(name, [*agents])}")
        return agents[name]

    def _known(self, topic: str) -> str:
        known = topic in self._outputs.topics or topic in self.log.topics
        if not known and not any(agent.handler for agent in self.app.agents):  # a handler may send to any topic
            raise ConfigurationError(f"no agent writes {topic!r}; {did_you_mean(topic, self._outputs.topics)}")
        return topic

    def _release(self) -> None:
        self._workers.die()
        self._test_store.close()
        if self._folder in sys.path:
            sys.path.remove(self._folder)
            self._folder = None

    def _check_crashes(self) -> None:
        if self.deaths.planned:
            raise AssertionError(f"a crash was asked for at {', '.join(self.deaths.planned)}, which was never reached")


def _headers(headers: HeaderValues) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]
