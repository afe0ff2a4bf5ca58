"""What must never be printed: passwords in URLs, and the secret settings of Kafka clients."""

import re
from urllib.parse import urlsplit

HIDDEN = "***"
_SECRET = re.compile(r"(password|secret|passphrase|\.key\.pem|oauthbearer\.config)$")


def is_secret(setting: str) -> bool:
    """Whether the value of a librdkafka setting must not be shown."""
    return _SECRET.search(setting) is not None


def redacted(url: str) -> str:
    """The URL with its user information and its query hidden; a URL that cannot be taken apart is hidden but for its scheme."""
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
