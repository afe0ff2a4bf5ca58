"""Whether a connection to another machine uses TLS. Without TLS it is refused unless the file says `allow_plaintext:
true`; `check` warns of it."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs

from sluicegate.streams.config.checks import loopback
from sluicegate.streams.config.fields import SERVERS
from sluicegate.streams.config.kafka import EMBEDDED
from sluicegate.streams.config.models import FileModel
from sluicegate.streams.config.problems import FileFinding, Path
from sluicegate.streams.config.scalars import Unknown

ENCRYPTED = {"sslmode": {"require", "verify-ca", "verify-full"}, "tls": {"true"}, "ssl": {"true"}}
# How a URL of each scheme asks for TLS.
WRITE = {
    "redis": "rediss:// in place of redis://",
    "postgresql": "?sslmode=verify-full&sslrootcert=FILE",
    "mysql": "?ssl_ca=FILE",
    "mariadb": "?ssl_ca=FILE",
    "mongodb": "?tls=true&tlsCAFile=FILE",
}
WHAT = "is on another machine and would be reached without TLS"
HINT = "or allow_plaintext: true where no other user is on the network"
ALLOW: Path = ("allow_plaintext",)


def findings(file: FileModel) -> Iterator[FileFinding]:
    """Brokers, schema registry and store."""
    if file.allow_plaintext:
        return
    servers, protocol = (
        file.kafka.get("bootstrap.servers"),
        str(file.kafka.get("security.protocol", "plaintext")).lower(),
    )
    known = isinstance(servers, str) and not isinstance(servers, Unknown) and servers != EMBEDDED
    if known and protocol in ("plaintext", "sasl_plaintext") and _elsewhere(str(servers)):
        at: Path = ("kafka", "bootstrap.servers")
        yield FileFinding(
            at, WHAT, f"write security.protocol: SSL or SASL_SSL, {HINT}", (at, ("kafka", "security.protocol"), ALLOW)
        )
    for place, url in _of_registry(file):
        if not isinstance(url, Unknown) and url.startswith("http://") and _elsewhere(url.split("/")[2]):
            yield FileFinding(place, WHAT, f"write https:// in place of http://, {HINT}", (place, ALLOW))
    if isinstance(file.store, str) and not isinstance(file.store, Unknown) and (how := _bare(file.store)):
        yield FileFinding(("store",), WHAT, f"write {how}, {HINT}", (("store",), ALLOW))


def _of_registry(file: FileModel) -> Iterator[tuple[Path, str]]:
    """The URLs of the schema registry, and where its tokens are asked for."""
    registry = file.schema_registry
    if registry is None:
        return
    yield from ((("schema_registry", "url"), url) for url in registry.url)
    if registry.auth is not None and registry.auth.token_url is not None:
        yield ("schema_registry", "auth", "token_url"), registry.auth.token_url


def _bare(url: str) -> str:
    """The way to ask for TLS in the URL, if the URL must ask for it and does not."""
    scheme, _, rest = url.partition("://")
    if scheme not in SERVERS or scheme.startswith("rediss") or scheme == "mongodb+srv":
        return ""
    parts = re.fullmatch(r"(?:[^/?#]*@)?(?P<hosts>[^/?#]*)[^?#]*(?:\?(?P<query>[^#]*))?.*", rest)
    if parts is None or not parts["hosts"] or not _elsewhere(parts["hosts"]):
        return ""
    given = parse_qs(parts["query"] or "")
    asked = "ssl_ca" in given or any(set(given.get(name, [])) & words for name, words in ENCRYPTED.items())
    return "" if asked else WRITE[scheme.partition("+")[0]]


def _elsewhere(hosts: str) -> bool:
    """Whether one of these comma-separated places, each with or without a port, is not this machine."""
    return any(not loopback(_host(place)) for place in hosts.split(",") if place.strip())


def _host(place: str) -> str:
    name = place.strip().rpartition("://")[2]
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
