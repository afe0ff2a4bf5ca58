"""The client of the state API, for other programs. It uses only the standard library."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sluicegate.streams.errors import ConfigurationError, SluicegateError

TIMEOUT = 5.0  # seconds
LONGEST_ANSWER = 64 * 1024 * 1024  # bytes


class ClientError(SluicegateError):
    """The worker gave no state. `status` is that of its answer, 0 without one. `retry_after` is the number of seconds
    after which the same call may succeed; None: not before something is changed."""

    def __init__(self, text: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class StateGroup:
    """An open group, as it was committed. `values` are its computed fields and `count` its records. `window` is the
    begin of its window as RFC 3339 text, None without windows. `first` and `last` are the offsets of its first and last
    record in the partition. `age` and `fires_in` are seconds: since it was opened, and until its timeout (None: it has
    none; negative: it is overdue). `owner` is the worker that owns the partition, None without one."""

    key: bytes
    topic: str
    partition: int
    count: int
    values: Mapping[str, Any]
    window: str | None
    first: int
    last: int
    age: float
    fires_in: float | None
    owner: str | None


class Client:
    """Reads the committed state of keys from a worker with `http: {state: true}`.

    `url` is that of the HTTP port of any worker of the app, such as `http://127.0.0.1:9464`, and `token` its
    `http.token`. `timeout` is the time in seconds for each answer. A client may be used by several threads.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = TIMEOUT) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigurationError(f"{url} is not a URL of a worker; write http://HOST:PORT")
        self._url = url.rstrip("/")
        self._token, self._timeout = token, timeout
        self._opener = build_opener(_NoRedirects)

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def group(self, agent: str, key: str | bytes, window: str | None = None, fresh: bool = False) -> StateGroup | None:
        """The open group of this key, or None. `window` is the begin of a window as RFC 3339 text. Raises ClientError,
        also where the key has several open groups: then `groups` gives them."""
        groups = list(self.groups(agent, key, window, fresh))
        if len(groups) > 1:
            raise ClientError(
                f"agent {agent}: the key has {len(groups)} open groups; call groups(), or name the window"
            )
        return groups[0] if groups else None

    def groups(
        self, agent: str, key: str | bytes, window: str | None = None, fresh: bool = False
    ) -> Iterator[StateGroup]:
        """The open groups of this key: one for each open window, by the begin of the window. With `fresh`, the worker
        reads the store for this call; else the answer may be a second old. Raises ClientError."""
        first: int | None = 0
        while first is not None:
            page = self._page(agent, key, {"first": first} | ({} if window is None else {"window": window}), fresh)
            yield from map(_group, page["groups"])
            first = page["next"]

    def _page(self, agent: str, key: str | bytes, fields: Mapping[str, Any], fresh: bool) -> Any:
        path = f"/agents/{quote(agent, safe='')}/groups/{quote(key, safe='')}"
        request = Request(f"{self._url}{path}?{urlencode(fields)}", headers={"Accept": "application/json"})
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        if fresh:
            request.add_header("Cache-Control", "no-cache")
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                content = answer.read(LONGEST_ANSWER + 1)
        except HTTPError as error:
            with error:
                return _refused(error)
        except (URLError, HTTPException, OSError) as error:
            reason = getattr(error, "reason", error)
            raise ClientError(f"{self._url} does not answer: {reason}", retry_after=1.0) from error
        if len(content) > LONGEST_ANSWER:
            raise ClientError(f"the answer of {self._url} is longer than {LONGEST_ANSWER} bytes", 200)
        return _document(content, 200)


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: a redirect would send the token to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _refused(error: HTTPError) -> Any:
    """The answer for a key without groups is empty. Raises ClientError for all other errors."""
    content = _document(error.read(LONGEST_ANSWER), error.code)
    if error.code == 404 and content.get("agent"):
        return {"groups": [], "next": None}
    text = content.get("error", error.reason)
    if names := content.get("agents"):
        text = f"{text}; there are {', '.join(names)}"
    seconds = error.headers.get("Retry-After", "")
    raise ClientError(text, error.code, float(seconds) if seconds.isdecimal() else None)


def _document(content: bytes, status: int) -> Any:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ClientError("the answer is not a JSON object: is this the HTTP port of a worker?", status)
    return document


def _group(fields: Mapping[str, Any]) -> StateGroup:
    key = b64decode(fields["key_base64"]) if "key_base64" in fields else fields["key"].encode()
    rest = {name: fields[name] for name in ("topic", "partition", "count", "values", "first", "last")}
    return StateGroup(
        key, **rest, window=fields.get("window"), age=fields["age"], fires_in=fields["fires_in"], owner=fields["owner"]
    )
