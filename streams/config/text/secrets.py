"""Hides values that must never be printed: passwords in URLs, and the secret settings of Kafka clients."""

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from sluicegate.streams.agent import App

HIDDEN = "***"
_SECRET = re.compile(r"(password|secret|passphrase|\.key\.pem|oauthbearer\.config)$")


def is_secret(setting: str) -> bool:
    """Whether the value of a librdkafka setting must not be shown."""
    return _SECRET.search(setting) is not None


def rotated(app: App, read: App) -> App:
    """`app` with the user names and passwords of the newly read file. Other changes of the file take effect at the next
    start."""
    store = read.store if redacted(read.store) == redacted(app.store) else app.store
    registry = app.registry
    if registry is not None and read.registry is not None:
        known = read.registry
        registry = replace(registry, username=known.username, password=known.password)
        registry = replace(registry, token=known.token, oauth=known.oauth)
    kafka = {**app.kafka, **_credentials(read.kafka)}
    clusters = {name: {**of, **_credentials(read.clusters.get(name, {}))} for name, of in app.clusters.items()}
    return replace(app, store=store, kafka=kafka, clusters=clusters, registry=registry)


def _credentials(kafka: Mapping[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in kafka.items() if is_secret(name) or name == "sasl.username"}


def redacted(url: str) -> str:
    """The URL with its user information and its query hidden. A URL that cannot be parsed is hidden except for its
    scheme."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return HIDDEN
    _, at, host = rest.rpartition("@")
    host, query, _ = host.partition("?")
    return f"{scheme}://{HIDDEN + '@' if at else ''}{host}{'?' + HIDDEN if query else ''}"


def has_password(url: str) -> bool:
    try:
        return bool(urlsplit(url).password)
    except ValueError:
        return "@" in url
