"""The types of a handler's parameters `send`, `schedule` and `session`, for annotations. See
help(sluicegate.Context)."""

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


class Session(Protocol):
    """The store's transaction, in which a handler with `session: true` writes. Each store has its own attributes:

    - PostgreSQL, MySQL, MariaDB and SQLite: `connection`, a `sqlalchemy.Connection`.
    - MongoDB: `client_session`, which every operation takes as `session=`, and `database`.
    - Redis and Valkey: `pipeline`, and `key(name)`, which puts a key next to the partition on a cluster.
    - memory: `values`, a mapping.
    """

    @property
    def connection(self) -> Any: ...

    @property
    def client_session(self) -> Any: ...

    @property
    def database(self) -> Any: ...

    @property
    def pipeline(self) -> Any: ...

    def key(self, name: str) -> str: ...

    @property
    def values(self) -> Any: ...
