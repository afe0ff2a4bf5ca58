"""Recognizes errors of a handler that mean that a system does not answer. Such a call counts no attempt and is
retried."""

import builtins
import socket
from collections.abc import Callable, Sequence

from sluicegate.streams.errors import ConfigurationError, NotCommitted, PersistenceError, SystemNotReady
from sluicegate.streams.handlers.values import Outage
from sluicegate.streams.importing import loaded

ALWAYS = (Outage, PersistenceError, SystemNotReady, ConnectionError, TimeoutError, socket.gaierror)
WELL_KNOWN = frozenset(
    {
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "botocore.exceptions.ConnectionError",
        "botocore.exceptions.HTTPClientError",
        "httpcore.NetworkError",
        "httpcore.RemoteProtocolError",
        "httpcore.TimeoutException",
        "httpx.NetworkError",
        "httpx.ProxyError",
        "httpx.RemoteProtocolError",
        "httpx.TimeoutException",
        "pymongo.errors.ConnectionFailure",
        "redis.exceptions.ConnectionError",
        "redis.exceptions.TimeoutError",
        "requests.exceptions.ChunkedEncodingError",
        "requests.exceptions.ConnectionError",
        "requests.exceptions.Timeout",
        "urllib3.exceptions.NewConnectionError",
        "urllib3.exceptions.ProtocolError",
        "urllib3.exceptions.TimeoutError",
    }
)
"""Errors of libraries, by class name, so no library has to be installed. Each means that no answer came. Errors that
the request itself causes, such as an address without a scheme, are not in the list."""
WRAPPERS = frozenset({"urllib.error.URLError", "urllib3.exceptions.MaxRetryError"})
"""Errors whose attribute `reason` is the error to judge."""

IsOutage = Callable[[BaseException], bool]


class Outages:
    """Judges errors by the classes of an agent (`outage`) and by the classes of well-known libraries. Raises
    ConfigurationError for a name that is not an error class."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._types: tuple[type[BaseException], ...] = (*ALWAYS, *map(outage_type, names))

    def __call__(self, error: BaseException) -> bool:
        if isinstance(error, self._types):
            return not isinstance(error, NotCommitted)
        if isinstance(error, BaseExceptionGroup):
            return all(map(self, error.exceptions))
        names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
        if not names.isdisjoint(WRAPPERS):
            reason = getattr(error, "reason", None)
            return isinstance(reason, BaseException) and self(reason)
        return not names.isdisjoint(WELL_KNOWN)


def outage_type(name: str) -> type[BaseException]:
    """The error class `package.Name`; without a package, a built-in one. Raises ConfigurationError."""
    module, _, last = name.rpartition(".")
    kind = loaded(f"{module}:{last}") if module else getattr(builtins, last, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise ConfigurationError(
            f"{name}: is not a class of errors; write one as package.Name, such as httpx.TransportError"
        )
    return kind
