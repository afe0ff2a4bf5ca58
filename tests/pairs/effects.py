"""What an agent of a pair does with the input of its kind."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sluicegate.streams import formats
from sluicegate.streams.agent import App
from sluicegate.streams.contracts import headers
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.deploying import DeployOptions, deploy
from sluicegate.streams.operations.parking import parked
from sluicegate.streams.testing import driver, workers
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.hashing import partition_of
from sluicegate.streams.testing.log import START, Log, LogProducer, LogRecord, ManualClock
from sluicegate.streams.testing.transactions import LogTransactions
from sluicegate.streams.topic_names import TopicNames, reads
from tests.pairs import functions, inputs
from tests.simulation.run import silent

NAMES_OF_RULES = frozenset((headers.ID, headers.SHARD, headers.NUMBER, headers.MAC, headers.RULE, headers.FIRE))
"""Headers whose values change with each rule."""
TABLES = ("create table entered (key text)", "create table customers (id text primary key, name text)")


def producer(*parts: Any) -> LogProducer:
    """A producer of a Kafka that refuses what is written under some keys."""
    made = LogProducer(*parts)
    made.fate = fate
    return made


def transactions(*parts: Any, **more: Any) -> LogTransactions:
    """As `producer`, of transactions."""
    made = LogTransactions(*parts, **more)
    made.fate = lambda rows: "rejected" if "rejected" in map(fate, rows) else "sent"
    return made


def fate(row: OutboxRow) -> str:
    topic, _, _ = row.topic.partition("@")  # "out@west": the topic of a cluster
    return "rejected" if topic in ("out", "big") and inputs.REFUSED.encode() in (row.key or b"") else "delivered"


def tables(connection: Any) -> None:
    for statement in TABLES:
        connection.exec_driver_sql(statement)


class Play:
    """An agent, and its changed form, over one log and one store."""

    def __init__(self, app: App, kind: str, changed: App | None = None) -> None:
        self.app, self.changed, self.kind = app, changed, kind
        self.log, self.clock = Log(partitions=inputs.PARTITIONS), ManualClock()
        self.driver: TestDriver | None = None
        self.refused = ""

    def seen(self) -> list[str]:
        """All that can be seen of the agent after the input."""
        functions.calls.clear()
        with (
            silent(),
            ExitStack() as self.open,
            patch.object(workers, "LogProducer", producer),
            patch.object(workers, "LogTransactions", transactions),
            patch.object(driver, "Log", lambda **_: self.log),
            patch.object(driver, "ManualClock", lambda: self.clock),
        ):
            for step in inputs.steps(self.kind):
                self.take(step)
            assert self.driver is not None
            return [self.refused, *observed(self.driver, self.app)]

    def take(self, step: inputs.Step) -> None:
        match step:
            case inputs.Sent():
                self.send(step)
            case inputs.Moment.BEGIN:
                setup = tables if any(agent.handler and agent.handler.session for agent in self.app.agents) else ()
                self.driver = self.open.enter_context(TestDriver(self.app, setup=setup))
            case inputs.Moment.CHANGED if self.driver and self.changed:
                self.change(self.driver, self.changed)
            case inputs.Row() if self.driver:
                write_row(self.driver, step.key)
            case float() if self.driver:
                self.driver.advance(step)

    def change(self, driver: TestDriver, changed: App) -> None:
        """As `run` does with a changed file."""
        names = [agent.name for agent in self.app.agents]
        person = Person("test", "", "change")
        deploy(driver._store, self.app, names, DeployOptions(), person)
        driver.crash()
        try:
            deploy(driver._store, changed, names, DeployOptions(again=False), person)
            self.app = changed
        except ConfigurationError as error:
            self.refused = str(error)
        self.driver = self.open.enter_context(TestDriver(self.app, store=driver._store))

    def send(self, sent: inputs.Sent) -> None:
        if (value := encoded(self.app, sent)) != b"":
            headers = [(name, text.encode()) for name, text in sent.headers.items()]
            number = partition_of(sent.key.encode(), self.log.count(sent.topic))
            at = int(1000 * (START + sent.after))
            self.log.append(sent.topic, number, sent.key.encode(), value, headers, at)


def write_row(driver: TestDriver, key: str) -> None:
    for lookup in [lookup for agent in driver.app.agents for lookup in agent.lookups]:
        if lookup.kind == "topic":
            driver.send(lookup.source, {"name": key}, key)
        else:
            driver.put_row(lookup.source, key, {"name": key})


def encoded(app: App, sent: inputs.Sent) -> bytes | None:
    """Empty where the format of the records has no such value."""
    reader = next(agent for agent in app.agents if reads(agent.topics, sent.topic))
    if reader.format == "json-schema":  # its codec writes no invalid value
        reader = replace(reader, format="json")
    value = sent.value
    if reader.changes and reader.format == "json" and isinstance(value, dict):
        value = {"op": "c", **value}  # a change event of Debezium
    try:
        return formats.record_value(reader, value)
    except (ValueError, TypeError, KeyError):
        return b""


def observed(driver: TestDriver, app: App) -> Iterator[str]:
    internal = TopicNames(topic for agent in app.agents for topic in agent.topics)
    for topic in driver.output_topics:
        if topic not in internal:
            yield from sorted(map(shown, driver.log.order.get(topic, [])))
    yield from driver.troubles()
    for agent in app.agents:
        if agent.scope != "shared":
            yield from (f"open {agent.name} {group}" for group in driver.groups(agent.name) if agent.grouped)
        yield from (f"offset {agent.name} {place} {offset}" for place, offset in driver.offsets(agent.name).items())
        if agent.handler is not None:
            yield from (f"parked {record}" for record in parked(driver._store, app.name, agent))
        if agent.handler is not None and agent.handler.session:
            yield from (f"row {row}" for row in driver.rows("select * from entered"))


def shown(message: LogRecord) -> str:
    named = [item for item in message.h or () if item[0] not in NAMES_OF_RULES]
    return f"{message.t}/{message.p} at {message.at}: {message.k!r} {message.v!r} {named}"
