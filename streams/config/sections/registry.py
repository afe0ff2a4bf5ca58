"""`schema_registry` of the file."""

from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, WithJsonSchema

from sluicegate.streams import agent as run
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import Duration, FlagField, Text, refused, unless_unknown
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Unknown

SUBJECTS = {"topic": "{topic}-value", "record": "{record}", "topic-record": "{topic}-{record}"}
"""The name of the subject by strategy. Parts in braces are placeholders."""
AT: Path = ("schema_registry",)

Strategy = Annotated[Literal["topic", "record", "topic-record"], unless_unknown("topic")]
RegisterField = FlagField


class RegistryAuth(FilePart, frozen=True):
    """A user name with a password, a bearer token, or OAuth client credentials: `token_url`, `client_id`,
    `client_secret` and what belongs to them."""

    username: Text | None = Field(
        default=None, description="The user name for HTTP basic authentication.", examples=["shop"]
    )
    password: Text | None = Field(
        default=None,
        repr=False,
        description="The password for HTTP basic authentication.",
        examples=["${REGISTRY_PASSWORD}"],
    )
    token: Text | None = Field(
        default=None, repr=False, description="The bearer token.", examples=["${REGISTRY_TOKEN}"]
    )
    token_url: Text | None = Field(
        default=None,
        description="The address that gives OAuth 2.0 tokens for `client_id` and `client_secret`.",
        examples=["https://login.example.com/oauth2/token"],
    )
    client_id: Text | None = Field(
        default=None, description="The client ID for OAuth 2.0 client credentials.", examples=["shop"]
    )
    client_secret: Text | None = Field(
        default=None,
        repr=False,
        description="The client secret for OAuth 2.0 client credentials.",
        examples=["${REGISTRY_SECRET}"],
    )
    scope: Text | None = Field(
        default=None, description="The scope that the token is asked for.", examples=["registry:read"]
    )
    logical_cluster: Text | None = Field(
        default=None,
        description="The ID of the registry's logical cluster in Confluent Cloud.",
        examples=["lsrc-12345"],
    )
    identity_pool: Text | None = Field(
        default=None, description="The ID of the identity pool in Confluent Cloud.", examples=["pool-1a2b"]
    )


def _as_urls(value: object) -> object:
    if value is None or value == []:
        raise refused("names no registry", "write the URL of the registry, or a list of them")
    return value if isinstance(value, list) else [value]


_URL = {"type": "string", "pattern": "^https?://"}
Urls = Annotated[
    list[Text],
    BeforeValidator(_as_urls),
    WithJsonSchema({"anyOf": [_URL, {"type": "array", "minItems": 1, "items": _URL}]}),
]


class RegistryModel(FilePart, frozen=True):
    """`ca`, `certificate` and `key` are files, relative to the folder of the file."""

    url: Urls = Field(
        repr=False, description="The URL of the registry, or a list of URLs.", examples=["https://registry:8081"]
    )
    auth: Annotated[RegistryAuth, unless_unknown(lambda: RegistryAuth.model_construct(token=""))] | None = Field(
        default=None,
        description="A user name with a password, or a bearer token.",
        examples=[{"username": "shop", "password": "${REGISTRY_PASSWORD}"}],
    )
    ca: Text | None = Field(
        default=None,
        description=(
            "A PEM file with the certificates of the authorities that are trusted, relative to the folder of the file."
        ),
        examples=["ca.pem"],
    )
    certificate: Text | None = Field(
        default=None,
        description="A PEM file with the client's certificate, relative to the folder of the file.",
        examples=["client.pem"],
    )
    key: Text | None = Field(
        default=None,
        description="A PEM file with the key of `certificate`, relative to the folder of the file.",
        examples=["client.key"],
    )
    timeout: Duration = Field(default=3.0, description="How long a request may take.", examples=["3s"])


def findings(registry: RegistryModel | None, folder: FilePath) -> Iterator[FileFinding]:
    if registry is None:
        return
    for url in registry.url:
        if not isinstance(url, Unknown) and not _is_url(url):
            what = "is not a URL of a registry without a user name or password"
            yield FileFinding((*AT, "url"), what, "write https://HOST:PORT, and auth beside it", ((*AT, "url"),))
    if registry.auth is not None:
        yield from _of_auth(registry.auth, (*AT, "auth"))
    for name in ("ca", "certificate", "key"):
        file = getattr(registry, name)
        if file is not None and not (folder / file).is_file():
            at = (*AT, name)
            yield FileFinding(at, "is not a file", "name a PEM file, relative to the folder of this file", (at,))
    if registry.key is not None and registry.certificate is None:
        needs = ((*AT, "key"), (*AT, "certificate"))
        yield FileFinding(needs[0], "has no meaning without certificate", "add certificate, or leave it out", needs)


def _of_auth(auth: RegistryAuth, at: Path) -> Iterator[FileFinding]:
    if _keys(auth) not in WHOLE and _keys(auth).difference(OPTIONAL) != WHOLE[-1]:
        hint = "write {username: NAME, password: TEXT}, {token: TEXT}, or {token_url: URL, client_id: ID, "
        what = "needs a username with a password, a token, or OAuth client credentials"
        yield FileFinding(at, what, f"{hint}client_secret: TEXT}}", (at,))
    elif isinstance(auth.token_url, str) and not isinstance(auth.token_url, Unknown) and not _is_url(auth.token_url):
        place = (*at, "token_url")
        yield FileFinding(place, "is not a URL without a user name or password", "write https://HOST/PATH", (place,))


OAUTH = ("token_url", "client_id", "client_secret")
OPTIONAL = ("scope", "logical_cluster", "identity_pool")
WHOLE = ({"username", "password"}, {"token"}, {*OAUTH})


def _keys(auth: RegistryAuth) -> set[str]:
    return {name for name in RegistryAuth.model_fields if getattr(auth, name) is not None}


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and "," not in url


def built(registry: RegistryModel | None, folder: FilePath) -> run.Registry | None:
    if registry is None:
        return None
    files = (registry.ca, registry.certificate, registry.key)
    ca, certificate, key = (None if file is None else str((folder / file).absolute()) for file in files)
    auth = registry.auth or RegistryAuth()
    urls, tls = tuple(registry.url), (ca, certificate, key)
    return run.Registry(urls, auth.username, auth.password, *tls, registry.timeout, auth.token, _oauth(auth))


def _oauth(auth: RegistryAuth) -> run.OAuthClient | None:
    if auth.token_url is None or auth.client_id is None or auth.client_secret is None:
        return None
    more = {name: value for name in OPTIONAL if (value := getattr(auth, name)) is not None}
    return run.OAuthClient(auth.token_url, auth.client_id, auth.client_secret, **more)


def name_of(registry: RegistryModel | None) -> str:
    """The value for `Avro.registry`."""
    return "" if registry is None else ",".join(registry.url)
