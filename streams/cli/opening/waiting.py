"""Waits for a system at the start of a command."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from sluicegate.connectors import reach
from sluicegate.streams.agent import EMBEDDED, App
from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.cli.terminal.outcome import complain
from sluicegate.streams.errors import PersistenceError, SystemNotReady, permanent
from sluicegate.streams.urls import hosts_of

TELL_FIRST = 2.0  # seconds until the first message
TELL_EVERY = 5.0  # seconds between two messages
KNOCK = 2.0  # seconds for a TCP connection
KAFKA = "kafka.bootstrap.servers"
T = TypeVar("T")
LONGEST_CALL = 5.0  # seconds


def call_timeout(app: App) -> float:
    """Seconds that one request may take."""
    return min(LONGEST_CALL, app.start_timeout)


class System(NamedTuple):
    """A system that a command waits for. `places` are host:port or a path; `key` is where the file names them."""

    name: str
    places: tuple[str, ...]
    key: str
    servers: tuple[tuple[str, int], ...] = ()
    """Host and port of each place that is a server; one of them must accept a connection."""

    def __str__(self) -> str:
        return f"{self.name} at {', '.join(self.places)}"


Tell = Callable[[System, float, str], object]
"""Reports a system that is waited for, the seconds that are left, and why the last attempt failed (empty: none
ended)."""


def store_of(app: App) -> System:
    """Raises ConfigurationError for a URL that its driver cannot read."""
    scheme, _, rest = app.store.partition("://")
    if scheme == "sqlite":
        return System("the store", (str(Path(app.folder, unquote(rest[1:])).absolute()),), "store")
    servers = tuple((host, port) for host, port in reach(app.store).servers if port)
    places = tuple(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)
    return System("the store", places or (f"{scheme}://{hosts_of(app.store)}",), "store", servers)


def kafka_of(app: App) -> System:
    """The servers of all clusters. An error names the cluster that does not answer."""
    if app.embedded:
        return System("Kafka", (EMBEDDED,), KAFKA)
    written = [str(of.get("bootstrap.servers", "")) for of in (app.kafka, *app.clusters.values())]
    servers = ",".join(server.rpartition("://")[2] for server in ",".join(written).split(","))
    return _of_servers("Kafka", servers, 9092, KAFKA)


def registry_of(app: App) -> System:
    places = app.registry.urls if app.registry is not None else ()
    urls = [urlsplit(place) for place in places]
    servers = tuple((url.hostname or "", url.port or (443 if url.scheme == "https" else 80)) for url in urls)
    return System("the schema registry", tuple(places), "schema_registry.url", servers)


def _of_servers(name: str, listed: str, port: int, key: str) -> System:
    """`listed` are comma-separated hosts, with or without a port. An IPv6 address is in brackets."""
    names = [word.strip() for word in listed.split(",") if word.strip()]
    places = [name if name.rpartition("]")[2].rpartition(":")[1] else f"{name}:{port}" for name in names]
    pairs = [place.rpartition(":") for place in places]
    servers = tuple((host.strip("[]"), int(number)) for host, _, number in pairs if number.isdecimal())
    return System(name, tuple(places), key, servers)


def on_stderr(system: System, remaining: float, why: str) -> None:
    complain(f"sluicegate: waiting for {system}, {remaining:.0f} s left{': ' + why if why else ''}")


def wait_for(
    seconds: float,
    attempt: Callable[[], T],
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    *,
    system: System,
    tell: Tell = on_stderr,
) -> T:
    """The result of `attempt`, which is repeated while the system does not answer. Raises SystemNotReady with the last
    reason after `seconds`, and at once for a permanent error or an unresolvable name."""
    deadline = clock() + seconds
    backoff = Backoff(0.1, 2.0, lambda: 1.0)
    last = [""]
    with _reporting(system, lambda: deadline - clock(), last, tell):
        _resolve(system)
        while True:
            try:
                _knock(system)
                return attempt()
            except (PersistenceError, SystemNotReady) as error:
                if error.permanent:
                    raise (
                        error if isinstance(error, SystemNotReady) else permanent(SystemNotReady(str(error)))
                    ) from error
                remaining = deadline - clock()
                if remaining <= 0:
                    hint = f"start it, or correct `{system.key}` in the file"
                    raise SystemNotReady(f"{system} is not ready: {error} (tried for {seconds:g} s); {hint}") from error
                last[0] = str(error)
            pause(min(backoff.delay(), remaining))


def _resolve(system: System) -> None:
    """Raises SystemNotReady when no name resolves."""
    failed = [why for host, _ in system.servers if (why := _unresolved(host))]
    if failed and len(failed) == len(system.servers):
        hint = f"correct `{system.key}` in the file, or the name service of this machine"
        raise permanent(SystemNotReady(f"{system} cannot be found: {failed[0]}; {hint}"))


def _unresolved(host: str) -> str:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError) as error:
        return f"the name {host} does not resolve ({getattr(error, 'strerror', None) or 'it is not a name'})"
    return ""


def _knock(system: System) -> None:
    """Raises SystemNotReady when no server accepts a connection. Some drivers need ten seconds to notice, or give no
    reason."""
    failed = ""
    for host, port in system.servers:
        try:
            socket.create_connection((host, port), KNOCK).close()
            return
        except OSError as error:
            failed = failed or f"{host}:{port}: {error.strerror or error}"
    if failed:
        raise SystemNotReady(failed)


@contextmanager
def _reporting(system: System, remaining: Callable[[], float], last: Sequence[str], tell: Tell) -> Iterator[None]:
    """Reports from a thread while the block runs, because one attempt may take longer than the interval."""
    over = threading.Event()

    def say() -> None:
        wait = TELL_FIRST
        while not over.wait(wait):
            tell(system, max(0.0, remaining()), last[0])
            wait = TELL_EVERY

    thread = threading.Thread(target=say, name="waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
