"""Makes a client from a URL: for one server, for the primary that sentinels name, or for a cluster."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import redis.cluster
import redis.connection
import redis.sentinel
from redis.backoff import NoBackoff
from redis.retry import Retry

from sluicegate.connectors import admission
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.urls import StoreAddress

driver: Any = redis  # much of it has no types
CONNECT_SECONDS = 5
REPLY_SECONDS = 10
SENTINEL_SECONDS = 2
CERTIFICATES = "ssl_ca_certs of the store's URL (ssl_certfile and ssl_keyfile are ours)"
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_password")
PORTS = {"": 6379, "sentinel": 26379, "cluster": 6379}
FORMS = {
    "": "redis://[user:password@]host[:port][/database]",
    "sentinel": "redis+sentinel://[user:password@]host[:port][,host[:port]...]/primary[/database]",
    "cluster": "redis+cluster://[user:password@]host[:port][,host[:port]...]",
}


@dataclass(frozen=True)
class Address:
    """A parsed URL. `kind` is a key of FORMS, `options` are the driver's, `login` is the sentinels' own."""

    kind: str
    nodes: tuple[tuple[str, int], ...]
    primary: str
    options: dict[str, Any] = field(repr=False)
    login: dict[str, Any] = field(repr=False)


class RedisServer:
    """`server()` returns the client and makes it on the first call, since a cluster's client connects at once."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Any = None

    def __call__(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def close(self) -> None:
        if self._made is None:
            return
        self._made.close()
        if not clustered(self._made):
            for sentinel in sentinels(self._made):
                sentinel.close()


def server(url: str) -> RedisServer:
    """The driver repeats nothing: after a lost reply the next claim tells whether the commit landed. Raises
    ConfigurationError."""
    address = parsed(url)
    make = {"": _single, "sentinel": _primary, "cluster": _cluster}[address.kind]
    return RedisServer(lambda: make(_admitted(address)))


def clustered(client: Any) -> bool:
    return isinstance(client, redis.RedisCluster)


def sentinels(client: Any) -> list[Any]:
    """The clients of the sentinels that name this client's server. None when the URL names the server itself."""
    keeper = getattr(client.connection_pool, "sentinel_manager", None)
    return [] if keeper is None else list(keeper.sentinels)


def parsed(url: str) -> Address:
    """The parsed URL. Raises ConfigurationError, whose text quotes no part of the URL."""
    scheme, _, rest = url.partition("://")
    transport, _, kind = scheme.partition("+")
    try:
        return _parsed(transport, kind, rest)
    except (ValueError, TypeError, redis.RedisError):
        raise ConfigurationError(f"the Redis URL cannot be read: {FORMS[kind]}") from None


def reach(url: str) -> StoreAddress:
    """The hosts of the URL, and whether it asks for TLS. Raises ConfigurationError."""
    address = parsed(url)
    return StoreAddress(address.nodes, bool(address.options.get("ssl")))


def _parsed(transport: str, kind: str, rest: str) -> Address:
    parts = re.fullmatch(
        r"(?:(?P<user>[^/?#]*)@)?(?P<hosts>[^/?#@]+)(?:/(?P<path>[^?#]*))?(?:\?(?P<query>[^#]*))?", rest
    )
    if parts is None:
        raise ValueError("not a URL")
    nodes = tuple(_node(text, PORTS[kind]) for text in parts["hosts"].split(","))
    primary, database = _path(kind, parts["path"] or "")
    if kind == "" and len(nodes) > 1:
        raise ValueError("several hosts without sentinels or a cluster")
    user = "" if parts["user"] is None else f"{parts['user']}@"
    settings = driver.connection.parse_url(f"{transport}://{user}host/{database}?{parts['query'] or ''}")
    for name in ("host", "port", "connection_class"):
        settings.pop(name, None)
    login = {
        name: settings.pop(f"sentinel_{name}") for name in ("username", "password") if f"sentinel_{name}" in settings
    }
    if kind == "cluster":
        _fits_cluster(settings)
    options = _bounded(CONNECT_SECONDS, REPLY_SECONDS) | ({"ssl": True} if transport == "rediss" else {}) | settings
    _pool("host", 1, options).make_connection()  # reads the options, does not connect
    return Address(kind, nodes, primary, options, login)


def _node(text: str, port: int) -> tuple[str, int]:
    parts = re.fullmatch(r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]\s]+))(:(?P<port>[0-9]{1,5}))?", text)
    number = int(parts["port"] or port) if parts else 0
    if parts is None or not 0 < number < 65536:
        raise ValueError("no host and port")
    return parts["six"] or parts["name"], number


def _path(kind: str, path: str) -> tuple[str, str]:
    """The primary's name (only with sentinels) and the database."""
    primary, _, database = path.partition("/") if kind == "sentinel" else ("", "", path)
    if (kind == "sentinel") != bool(primary) or not re.fullmatch(r"[0-9]*", database):
        raise ValueError("no such path")
    return unquote(primary), database


def _fits_cluster(options: dict[str, Any]) -> None:
    """Raises ValueError for a database, which a cluster does not have, and for options that its client would ignore."""
    if options.pop("db", 0) != 0 or driver.cluster.cleanup_kwargs(**options) != options:
        raise ValueError("not for a cluster")


def _bounded(connect: float, reply: float) -> dict[str, Any]:
    return {
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": connect,
        "socket_timeout": reply,
        "socket_keepalive": True,
    }


def _pool(host: str, port: int, options: dict[str, Any]) -> redis.ConnectionPool:
    rest = {name: value for name, value in options.items() if name != "ssl"}
    kind = redis.SSLConnection if options.get("ssl") else redis.Connection
    return redis.ConnectionPool(connection_class=kind, host=host, port=port, **rest)


def _admitted(address: Address) -> Address:
    """Returns the address unless its servers refuse our certificate: then it raises NotAuthenticated. The driver often
    learns only that the server closed the connection. A URL with further TLS options is left to the driver."""
    options = address.options
    if options.get("ssl"):
        tls = admission.context(
            "redis", admission.Files(*(str(options.get(name) or "") for name in FILES)), CERTIFICATES
        )
        if not {name for name in options if name.startswith("ssl_")} - set(FILES):
            admission.knock("redis", address.nodes, tls, CERTIFICATES, b"PING\r\n")
    return address


def _single(address: Address) -> Any:
    return redis.Redis.from_pool(_pool(*address.nodes[0], address.options))


def _primary(address: Address) -> Any:
    """A client of the primary. Sentinels use TLS when the servers do, with the same certificates. Only the URL gives
    their login."""
    shared = {name: value for name, value in address.options.items() if name.startswith("ssl")}
    own = _bounded(SENTINEL_SECONDS, SENTINEL_SECONDS) | shared | address.login
    return driver.sentinel.Sentinel(address.nodes, sentinel_kwargs=own, **address.options).master_for(address.primary)


def _cluster(address: Address) -> Any:
    return redis.RedisCluster(
        startup_nodes=[driver.cluster.ClusterNode(*node) for node in address.nodes], **address.options
    )
