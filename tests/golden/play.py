"""Plays a script on a SQLite store with the driver's clock, so that each run writes the same bytes."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, cast
from unittest.mock import patch

from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.outbox import rows
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.outputs import sent_by_us
from tests.golden.features import Feature, Step

HEAD = """\
app: golden
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
dead_letters: dead
http: false
agents:
"""
TABLES = ("sluicegate_claim", "sluicegate_changelog", "sluicegate_outbox", "sluicegate_dead", "sluicegate_cold")
BEGIN = 1_767_225_600.0  # 2026-01-01, where the driver's clock begins
State = dict[str, list[dict[str, Any]]]
"""The rows of each of TABLES."""


class Play:
    """One app. `folder` gets its file."""

    def __init__(self, feature: Feature, folder: Path) -> None:
        (folder / "app.yaml").write_text(HEAD + feature.agents)
        self._version = patch.object(rows, "version", lambda: "0.1.0")  # of the build, in dead letters
        self._version.start()
        self._driver = TestDriver(folder / "app.yaml", partitions=1, setup=lambda _: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._version.stop()
        self._driver.close()

    def steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, float):
                self._driver.advance(step)
                continue
            topic, key, value, *headers = step
            if isinstance(value, dict) and "at" in value:
                value = {**value, "at": BEGIN + value["at"]}
            self._driver.send(topic, value, key, *headers, partition=0)

    def outputs(self) -> list[str]:
        """What was sent so far, by topic and in order, each as one JSON text."""
        return [
            json.dumps([topic, _text(message.k), _text(message.v), _headers(message)])
            for topic in self._driver.output_topics
            for message in sent_by_us(self._driver.log.order.get(topic, []))
        ]

    def crash(self) -> None:
        self._driver.crash()

    def state(self) -> State:
        """The rows of each table that holds state, as JSON."""
        return {table: [_as_json(row) for row in self._rows(table)] for table in TABLES}

    def take_over(self, state: State) -> None:
        """The process dies. The next one finds this state in its store, whose data stay the same data."""
        self._driver._workers.die()
        store = self._driver._test_store.store
        incarnation = store.incarnation
        with cast(Any, store).transaction() as session:
            for table in reversed(TABLES):
                session.connection.exec_driver_sql(f"delete from {table}")
            for table in TABLES:
                for row in map(_of_json, state.get(table, [])):
                    row |= {"incarnation": incarnation} if "incarnation" in row else {}
                    marks = ", ".join("?" * len(row))
                    session.connection.exec_driver_sql(
                        f"insert into {table} ({', '.join(row)}) values ({marks})", tuple(row.values())
                    )

    def _rows(self, table: str) -> list[dict[str, Any]]:
        return self._driver.rows(f"select * from {table} order by 1, 2")


def _headers(message: Record) -> list[tuple[str, str | None]]:
    return [(name, _text(value)) for name, value in headers(message)]


def _text(value: bytes | None) -> str | None:
    """Bytes that stay the same bytes in JSON."""
    return None if value is None else value.decode("latin-1")


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """The incarnation is a random name of the store's data."""
    coded = {
        name: {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in row.items()
    }
    return coded | ({"incarnation": ""} if "incarnation" in coded else {})


def _of_json(row: dict[str, Any]) -> dict[str, Any]:
    return {name: b64decode(value["base64"]) if isinstance(value, dict) else value for name, value in row.items()}


def recording(feature: Feature, folder: Path) -> dict[str, Any]:
    """What `recorded/` keeps of a feature."""
    with Play(feature, folder) as play:
        play.steps(feature.first)
        half = {"sent": play.outputs(), "state": play.state()}
        play.crash()
        play.steps(feature.second)
        return half | {"end": play.outputs()}
