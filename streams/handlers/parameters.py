"""The types of a handler's parameters `send` and `schedule`, for annotations. help(sluicegate.Context) says more."""

from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from sluicegate.streams.handlers.values import HeadersToSend


class Send(Protocol):
    """Sends a message with the commit: without `topic`, to the agent's `to`; without `key`, under the key of the
    message or group."""

    def __call__(
        self, value: Any, topic: str | None = None, key: bytes | str | None = None, headers: HeadersToSend = ()
    ) -> None: ...


class Schedule(Protocol):
    """Sends a message later: `after` seconds from the commit, or `at` a time. Returns its id, for `cancel`."""

    def __call__(
        self,
        value: Any,
        *,
        after: float | timedelta | None = None,
        at: datetime | None = None,
        topic: str | None = None,
        key: bytes | str | None = None,
        name: str | None = None,
        headers: HeadersToSend = (),
    ) -> UUID: ...
