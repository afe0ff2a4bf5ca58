"""The connectors, one folder for each outside system. A driver is imported when a URL needs it."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

from sluicegate.streams.agent import Registry
from sluicegate.streams.contracts.leased_values import Types
from sluicegate.streams.contracts.options import STANDARD, LeasedOptions
from sluicegate.streams.contracts.registry import SchemaRegistry
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.errors import ConfigurationError, SystemNotReady, TopicMissing
from sluicegate.streams.urls import ENCODE, StoreAddress, uncertain

__all__ = ["open_registry", "open_store", "reach", "topic_ids"]

Opener = Callable[[str, str, str, LeasedOptions], Store]


def open_store(
    url: str,
    folder: str = ".",
    types: Types | None = None,
    options: LeasedOptions | None = None,
    app: str | None = None,
) -> Store:
    """The store of a URL; it connects when it is first used. SQLite paths may be relative to `folder`. `types` decode
    the entries of `store.buffer` (None: they stay bytes). `options` belong to the leased contracts. `app` names the app
    that owns the timeouts and messages when several apps share the store. Without it they belong to no app, and every
    app sends them. Raises ConfigurationError for an invalid URL, and for a driver that is not installed."""
    scheme, separator, rest = url.partition("://")
    if not separator or not re.fullmatch(r"[a-z][a-z0-9+]*", scheme):
        raise ConfigurationError(f"the store's URL must start with one of {_known()}")
    if scheme not in _OPENERS:
        raise ConfigurationError(f"there is no store for {scheme}://; known are {_known()}")
    if scheme in _REACH and uncertain(url):
        raise ConfigurationError(f"the store's URL has an @ that does not end user and password: {ENCODE}")
    options = options or STANDARD
    options = options if app is None else options._replace(app=app)
    return _OPENERS[scheme](url, rest, folder, options if types is None else options._replace(types=types))


def reach(url: str) -> StoreAddress:
    """The hosts and ports that the store's driver connects to, as the driver itself reads the URL. Servers that a
    sentinel, a cluster or a replica set names later are not known yet. Raises ConfigurationError for a URL that the
    driver cannot read, and for a driver that is not installed."""
    look = _REACH.get(url.partition("://")[0])
    return StoreAddress((), False) if look is None else look(url)


def open_registry(registry: Registry) -> SchemaRegistry:
    """A client of the schema registry; it connects when it is first used. Raises ConfigurationError, also for an extra
    that is not installed."""
    from sluicegate.connectors.registry.client import opened

    return opened(registry)


def topic_ids(kafka: Mapping[str, str | int | float | bool]) -> Callable[[str], str]:
    """A function that asks the brokers for the id of a topic: a topic that is created again has a new id. `kafka` are
    librdkafka's settings, at least `bootstrap.servers`. The function raises TopicMissing and SystemNotReady."""
    from sluicegate.connectors.kafka.admin import described, open_admin

    admin = open_admin(kafka)

    def topic_id(topic: str) -> str:
        description = described(admin, [topic])[topic]
        if description is None:
            raise TopicMissing(f"there is no topic {topic}")
        if not description.id:
            raise SystemNotReady(f"the brokers return no id of topic {topic}: use Kafka 2.8 or later")
        return description.id

    return topic_id


def _known() -> str:
    return ", ".join(f"{scheme}://" for scheme in sorted(_OPENERS))


def _memory(_url: str, rest: str, _folder: str, options: LeasedOptions) -> Store:
    from sluicegate.connectors.memory.state import shared

    return shared(rest, options)


def _sqlite(_url: str, rest: str, folder: str, options: LeasedOptions) -> Store:
    from sluicegate.connectors.sql.sqlite import Sqlite
    from sluicegate.connectors.sql.state import SqlStore

    if not rest.startswith("/") or rest == "/" or rest.endswith(":memory:") or "?" in rest:
        raise ConfigurationError(
            "a SQLite store is sqlite:///relative/path.db or sqlite:////absolute/path.db, without options"
        )
    return SqlStore(Sqlite(Path(folder, unquote(rest[1:])).absolute()), options=options)


def _require(product: str, extra: str, drivers: Sequence[str]) -> None:
    """Raises ConfigurationError unless these drivers, which the extra installs, are there."""
    try:
        for driver in drivers:
            import_module(driver)
    except ImportError:
        hint = f'pip install "sluicegate[{extra}]"'
        raise ConfigurationError(f"the {product} driver is not installed: {hint}") from None


def _redis(url: str, _rest: str, _folder: str, options: LeasedOptions) -> Store:
    _require(*REDIS)
    from sluicegate.connectors.redis.state import RedisStore

    return RedisStore(url, options=options)


def _redis_reach(url: str) -> StoreAddress:
    _require(*REDIS)
    from sluicegate.connectors.redis.addresses import reach

    return reach(url)


def _mongodb(url: str, _rest: str, _folder: str, options: LeasedOptions) -> Store:
    _require(*MONGODB)
    from sluicegate.connectors.mongodb.state import MongoStore

    return MongoStore(url, options=options)


def _mongodb_reach(url: str) -> StoreAddress:
    _require(*MONGODB)
    from sluicegate.connectors.mongodb.connection import reach

    return reach(url)


def _postgresql(url: str, _rest: str, _folder: str, options: LeasedOptions) -> Store:
    _require(*POSTGRESQL)
    from sluicegate.connectors.sql.postgresql import Postgresql
    from sluicegate.connectors.sql.state import SqlStore

    return SqlStore(Postgresql(url), options=options)


def _postgresql_reach(url: str) -> StoreAddress:
    _require(*POSTGRESQL)
    from sluicegate.connectors.sql.postgresql import reach

    return reach(url)


def _mysql(url: str, _rest: str, _folder: str, options: LeasedOptions) -> Store:
    _require(*MYSQL)
    from sluicegate.connectors.sql.mysql import Mysql
    from sluicegate.connectors.sql.state import SqlStore

    return SqlStore(Mysql(url), options=options)


def _mysql_reach(url: str) -> StoreAddress:
    _require(*MYSQL)
    from sluicegate.connectors.sql.mysql import reach

    return reach(url)


# Product, extra and drivers.
REDIS = ("Redis", "redis", ("redis",))
MONGODB = ("MongoDB", "mongodb", ("pymongo",))
POSTGRESQL = ("PostgreSQL", "postgresql", ("psycopg", "sqlalchemy"))
MYSQL = ("MySQL", "mysql", ("pymysql", "sqlalchemy"))

_OF_REDIS = ("redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_OF_MONGODB = ("mongodb", "mongodb+srv")
_OF_MYSQL = ("mysql", "mariadb")
_OPENERS: dict[str, Opener] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    **dict.fromkeys(_OF_MYSQL, _mysql),
    **dict.fromkeys(_OF_REDIS, _redis),
    **dict.fromkeys(_OF_MONGODB, _mongodb),
}
_REACH: dict[str, Callable[[str], StoreAddress]] = {
    "postgresql": _postgresql_reach,
    **dict.fromkeys(_OF_MYSQL, _mysql_reach),
    **dict.fromkeys(_OF_REDIS, _redis_reach),
    **dict.fromkeys(_OF_MONGODB, _mongodb_reach),
}
