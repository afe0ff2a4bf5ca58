"""The store of a test: in memory, or a SQLite file when a handler has an SQL session."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.testing.log import ManualClock

SQL = ("sqlite", "postgresql", "mysql", "mariadb")
StoreSetup = str | Path | Callable[[Any], object]
"""A file of SQL, relative to the folder of the app; or a function that takes the `sqlalchemy.Connection` of a
transaction."""


def on_sqlite(app: App, setup: bool) -> bool:
    """Whether a test needs a SQLite file: it has a setup, or a handler has a session of an SQL store."""
    sessions = any(agent.handler is not None and agent.handler.session for agent in app.agents)
    return setup or (sessions and app.store.partition("://")[0] in SQL)


def require_sqlalchemy() -> None:
    """Raises ConfigurationError where it is not installed."""
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError(
            'a test of a session plays on SQLite and needs SQLAlchemy: pip install "sluicegate[sqlite]"'
        )


class TestStore:
    """The store of one test; `close` deletes its file."""

    __test__ = False  # pytest must not collect it

    def __init__(
        self, app: App, clock: ManualClock, setup: StoreSetup | Sequence[StoreSetup], store: Store | None
    ) -> None:
        steps = [setup] if isinstance(setup, str | Path) or callable(setup) else list(setup)
        self._app = app
        self._folder: TemporaryDirectory[str] | None = None
        if store is not None and steps:
            raise ConfigurationError("a setup makes a SQLite file of the test's own: leave out setup, or store")
        if store is not None:
            self.store = store
        elif on_sqlite(app, bool(steps)):
            self.store = self._on_sqlite(app, clock, steps)
        else:
            from sluicegate.connectors.memory.state import MemoryStore

            self.store = MemoryStore(clock.time)

    def _on_sqlite(self, app: App, clock: ManualClock, steps: Sequence[StoreSetup]) -> Store:
        require_sqlalchemy()
        from sluicegate.connectors.sql.scratch import scratch

        self._folder = TemporaryDirectory(prefix="sluicegate-test-")
        try:
            scripts = [Path(app.folder, step) for step in steps if isinstance(step, str | Path)]
            store: Store = scratch(Path(self._folder.name), clock.time, scripts)
            for step in steps:
                if callable(step):
                    with cast(Any, store).transaction() as session:
                        step(session.connection)
        except BaseException:
            self._folder.cleanup()
            raise
        return store

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query. Raises ConfigurationError for a store without SQL, and for a query that fails."""
        with cast(Any, self.store).transaction() as session:
            connection = getattr(session, "connection", None)
            if connection is None:
                raise ConfigurationError("this test has no tables: begin it with a setup, a file of SQL")
            try:
                return [dict(row) for row in connection.exec_driver_sql(sql).mappings()]
            except Exception as error:
                why = getattr(error, "orig", error)
                raise ConfigurationError(f"the query failed: {why}; correct its SQL") from error

    def put_row(self, source: str, key: str | int, value: Mapping[str, Any] | None) -> None:
        """Raises ConfigurationError when no lookup has this source, and for a row that the table does not take."""
        lookups = [lookup for agent in self._app.agents for lookup in agent.lookups if lookup.kind != "topic"]
        lookup = next((lookup for lookup in lookups if lookup.source == source), None)
        if lookup is None:
            raise ConfigurationError(f"no lookup has the source {source!r}")
        with cast(Any, self.store).transaction() as session:
            connection = getattr(session, "connection", None)
            if connection is None:
                others = {name: row for name, row in session.values.get(source, {}).items() if str(name) != str(key)}
                session.values[source] = others if value is None else others | {key: dict(value)}
                return
            row = {lookup.column: key, **(value or {})}
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            try:
                gone = f'delete from "{source}" where "{lookup.column}" = ?'  # nosec B608
                connection.exec_driver_sql(gone, (key,))
                if value is not None:
                    added = f'insert into "{source}" ({names}) values ({marks})'  # nosec B608
                    connection.exec_driver_sql(added, (*row.values(),))
            except Exception as error:
                why = getattr(error, "orig", error)
                raise ConfigurationError(f"the row of {source} cannot be written: {why}; correct the setup") from error

    def close(self) -> None:
        if self._folder is not None:
            self.store.close()
            self._folder.cleanup()
