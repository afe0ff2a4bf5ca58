"""Decides whether a connection to another machine uses TLS. Without TLS it is refused unless the file has
`allow_plaintext: true`; `check` warns of it.

The driver of the store gives the hosts of its URL, because two parsers of one URL may differ.
"""

from collections.abc import Iterator

from sluicegate.streams.agent import EMBEDDED
from sluicegate.streams.config.sections import kafka
from sluicegate.streams.config.sections.models import FileModel
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.urls import hosts_of, loopback

# How a URL of each scheme demands TLS.
WRITE = {
    "redis": "rediss:// in place of redis://",
    "postgresql": "?sslmode=verify-full&sslrootcert=FILE",
    "mysql": "?ssl_ca=FILE",
    "mariadb": "?ssl_ca=FILE",
    "mongodb": "?tls=true&tlsCAFile=FILE",
}
WHAT = "is on another machine and would be reached without TLS"
HIDDEN = (
    "leads to another machine by its host, hostaddr or service, or by the environment's PG variables, and would be "
    "reached without TLS"
)
HINT = "or allow_plaintext: true where no other user is on the network"
ALLOW: Path = ("allow_plaintext",)


def findings(file: FileModel) -> Iterator[FileFinding]:
    """Connections without TLS: brokers, their issuer of tokens, schema registry and store."""
    if file.allow_plaintext:
        return
    clusters = kafka.clusters_of(file.kafka)
    for path, settings in map(clusters.of, clusters.settings):
        default = "sasl_ssl" if kafka.LOGIN in settings else "plaintext"
        servers, protocol = settings.get("bootstrap.servers"), str(settings.get("security.protocol", default))
        known = isinstance(servers, str) and not isinstance(servers, Unknown) and servers != EMBEDDED
        if known and protocol.lower() in ("plaintext", "sasl_plaintext") and _is_remote(str(servers)):
            at, hint = (*path, "bootstrap.servers"), f"write security.protocol: SSL or SASL_SSL, {HINT}"
            yield FileFinding(at, WHAT, hint, (at, (*path, "security.protocol"), ALLOW))
    for place, url in (*_of_registry(file), *_of_login(file)):
        if not isinstance(url, Unknown) and url.startswith("http://") and _is_remote(url.split("/")[2]):
            yield FileFinding(place, WHAT, f"write https:// in place of http://, {HINT}", (place, ALLOW))
    yield from _of_store(file)


def _of_registry(file: FileModel) -> Iterator[tuple[Path, str]]:
    """The URLs of the schema registry, and of the issuer of its tokens."""
    registry = file.schema_registry
    if registry is None:
        return
    yield from ((("schema_registry", "url"), url) for url in registry.url)
    if registry.auth is not None and registry.auth.token_url is not None:
        yield ("schema_registry", "auth", "token_url"), registry.auth.token_url


def _of_login(file: FileModel) -> Iterator[tuple[Path, str]]:
    """The URL of the issuer of tokens for the brokers."""
    name, clusters = "sasl.oauthbearer.token.endpoint.url", kafka.clusters_of(file.kafka)
    for path, settings in map(clusters.of, clusters.settings):
        if isinstance(url := settings.get(name), str):
            yield (*path, name), url


def _of_store(file: FileModel) -> Iterator[FileFinding]:
    """The hosts of the store. A URL that its connector refuses, and one whose driver is not installed, have none:
    `open_store` reports the error."""
    from sluicegate.connectors import reach

    if isinstance(file.store, Unknown):
        return
    try:
        servers, tls = reach(file.store)
    except ConfigurationError:
        return
    if not tls and any(not loopback(host) for host, _ in servers):
        what = WHAT if _is_remote(hosts_of(file.store)) else HIDDEN
        how = WRITE[file.store.partition("://")[0].partition("+")[0]]
        yield FileFinding(("store",), what, f"write {how}, {HINT}", (("store",), ALLOW))


def _is_remote(hosts: str) -> bool:
    """Whether one of these comma-separated hosts, each with or without a port, is another machine."""
    return any(not loopback(_host(place)) for place in hosts.split(",") if place.strip())


def _host(place: str) -> str:
    name = place.strip().rpartition("://")[2]
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
