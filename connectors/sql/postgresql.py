"""PostgreSQL with psycopg 3. Statements are pipelined."""

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import Buffer, Loader, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn
from psycopg.types import datetime
from psycopg.types.json import JsonLoader
from psycopg.waiting import Ready, Wait

from sluicegate.connectors import admission
from sluicegate.connectors.sql import pooler, server, statements
from sluicegate.connectors.sql.database import Ask, Row, StoreSession, Waiter
from sluicegate.connectors.sql.leased.lending import Lender
from sluicegate.connectors.sql.listening import Listener
from sluicegate.schemas.json import UNREADABLE, document
from sluicegate.streams.contracts.values import ColdGroup, Level
from sluicegate.streams.errors import ConfigurationError, NotAuthenticated
from sluicegate.streams.urls import StoreAddress

LOWEST = 130000
CERTIFICATES = "sslrootcert of the store's URL (sslcert, sslkey and sslpassword are ours)"
# libpq's texts of a server that denies access: errors have no codes before the connection is made.
DENIED = re.compile(
    r"(password|peer|ident|certificate|SCRAM).* authentication failed|no pg_hba.conf entry|no password supplied"
)
SERVICE = re.compile(r'definition of service ".*" not found|service file ".*" not found')
ABSENT = re.compile(r'FATAL: +(role|database) ".*" does not exist')
# libpq's texts of a certificate or key of ours that it cannot use.
UNUSABLE = re.compile(r"private key file|could not (load|read) .*certificate file|certificate file .* does not exist")
ASK_FOR_TLS = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
# These bound how long a worker that stopped inside a commit locks its row. From version 17 on transaction_timeout
# covers a worker that stopped while it sent, too.
SETTINGS = (
    "set idle_in_transaction_session_timeout = '4s'",
    "set lock_timeout = '6s'",
    "set statement_timeout = '15s'",
    "select set_config(name, '15s', false) from pg_settings where name = 'transaction_timeout'",
)
# Connection, resources, operator (with timeouts), system, lock timeout, idle in transaction, transaction timeout.
OUTAGES = ("08", "53", "57", "58", "55P03", "25P03", "25P04")
KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15000,
}

SHOWN = """
select current_setting('server_version_num')::int, pg_is_in_recovery(), current_setting('transaction_read_only'),
  current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')"""


NOWHERE = {"target_session_attrs": "nowhere"}
ENCRYPTED = ("require", "verify-ca", "verify-full")


def reach(url: str) -> StoreAddress:
    """Raises ConfigurationError."""
    known = Postgresql(url).resolved()
    return StoreAddress(_places(known), known["sslmode"] in ENCRYPTED)


def _resolved(url: str) -> dict[str, str]:
    """The options that libpq makes of the URL, its service file and the environment. libpq shows them only for a
    connection, so this function begins one with a setting that libpq refuses before it looks for a host."""
    link = pq.PGconn.connect_start(make_conninfo(url, **NOWHERE).encode())
    try:
        known = {option.keyword.decode(): (option.val or b"").decode(errors="replace") for option in link.info}
        text = link.error_message.decode(errors="replace").strip()
    finally:
        link.finish()
    if known["target_session_attrs"] != NOWHERE["target_session_attrs"] or "target_session_attrs" not in text:
        service = SERVICE.search(text)
        why = f"{service[0]}; " if service else ""
        raise ConfigurationError(f"libpq cannot use the PostgreSQL URL: {why}correct its host, hostaddr or service")
    return known


def _places(known: Mapping[str, str]) -> list[tuple[str, int]]:
    """The hosts that libpq connects to. An address takes precedence over the name beside it."""
    names, addresses, ports = (known.get(name, "").split(",") for name in ("host", "hostaddr", "port"))
    places = []
    for at in range(max(len(names), len(addresses))):
        name, address = (values[at] if at < len(values) else "" for values in (names, addresses))
        if (place := address or name) and not place.startswith(("/", "@")):
            places.append((place, int(ports[min(at, len(ports) - 1)] or 5432)))
    return places


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """Waits for an answer no longer than `patience`: libpq has no such limit."""

    patience: float = server.REPLY_SECONDS

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, self.patience if timeout is None else timeout)


class _Impatient(_Connection):
    """A short limit for a further connection: a pooler may let it wait until another one ends."""

    patience = 2.0


C = TypeVar("C", bound=_Connection)


def _sent(link: PGconn) -> PQGen[None]:
    """Sends all of a large statement. psycopg (3.3.8) waits for the answer while the rest is unsent, and so for
    ever."""
    while link.flush():
        if (yield Wait.RW) & Ready.R:
            link.consume_input()


def _or_text(known: type[Loader]) -> type[Loader]:
    """A loader for times that Python does not have, such as infinity, years before Christ, and 24:00."""

    class TimeOrText(known):  # type: ignore[misc,valid-type]
        def load(self, data: Buffer) -> Any:
            try:
                return super().load(data)
            except (psycopg.DataError, ValueError, OverflowError):
                return bytes(data).decode()

    return TimeOrText


class _JsonOrText(JsonLoader):
    """JSON that a record may hold, and all other JSON as its text: lone surrogates, 1e999, deep nesting."""

    def load(self, data: Buffer) -> Any:
        try:
            return document(bytes(data))
        except UNREADABLE:
            return bytes(data).decode(errors="replace")


_LOADERS: dict[str, type[Loader]] = {
    **dict.fromkeys(("json", "jsonb"), _JsonOrText),
    "date": _or_text(datetime.DateLoader),
    "time": _or_text(datetime.TimeLoader),
    "timetz": _or_text(datetime.TimetzLoader),
    "timestamp": _or_text(datetime.TimestampLoader),
    "timestamptz": _or_text(datetime.TimestamptzLoader),
    "interval": _or_text(datetime.IntervalLoader),
}


class _PostgresqlSession(StoreSession):
    def __init__(self, connection: _Connection, pipeline: psycopg.Pipeline) -> None:
        self.connection = connection
        self._pipeline = pipeline

    def run(self, text: str, values: Sequence[object] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        cursor = self.connection.execute(text.encode(), values)
        self.connection.wait(_sent(self.connection.pgconn))
        return cursor

    def rows(self, text: str, values: Sequence[object] = ()) -> Sequence[tuple[Any, ...]]:
        cursor = self.run(text, values)
        # A fetch alone would not end the batch: the server would not see a worker that stops now as idle, and would
        # never end its transaction.
        self._pipeline.sync()
        return cursor.fetchall()

    def settle(self) -> None:
        self._pipeline.sync()


class Postgresql(server.SqlServer):
    name = "postgresql"
    errors: type[Exception] = psycopg.Error
    # Serialization failure and deadlock.
    retryable = frozenset(("40001", "40P01"))
    no_table = "42P01"
    dialect = "postgresql"
    begin_reading: Sequence[str] = ("begin isolation level repeatable read read only",)
    begin_migrating: Sequence[str] = ("begin", "select pg_advisory_xact_lock(7236542071923)")
    ended = frozenset(("3B001", "25P01"))
    aborted = frozenset(("25P02",))
    steps_exist = "select to_regclass('sluicegate_step') is not null"
    column_exists = "select 1 from pg_attribute where attrelid = to_regclass(%s) and attname = %s and not attisdropped"
    clock = "select extract(epoch from clock_timestamp())::float8"

    def __init__(self, url: str) -> None:
        try:
            self._said = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        except psycopg.ProgrammingError:
            raise ConfigurationError(
                "the PostgreSQL URL cannot be read: postgresql://[user:password@]host[:port]/database"
            ) from None
        self._url = url
        self._looked = False
        self.lender = Lender("postgresql+psycopg://", use_native_hstore=False)

    def resolved(self) -> dict[str, str]:
        """Raises ConfigurationError."""
        return _resolved(self._url)

    def connect(self) -> _Connection:
        connection = self._open(_Connection)
        try:
            if not self._looked:
                pooler.check(connection, lambda: self._open(_Impatient))
                self._looked = True
            with connection.pipeline():
                for text in SETTINGS:
                    connection.execute(text)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self, kind: type[C]) -> C:
        # Without a password libpq would ask the terminal for the password of an encrypted key.
        quiet: dict[str, Any] = {} if "sslpassword" in self._said else {"sslpassword": "none was given"}  # nosec B105
        return kind.connect(self._url, autocommit=True, connect_timeout=server.CONNECT_SECONDS, **KEEPALIVE, **quiet)

    @contextmanager
    def session(self, connection: _Connection) -> Iterator[StoreSession]:
        with connection.pipeline() as pipeline:
            yield _PostgresqlSession(connection, pipeline)

    def code(self, error: Exception) -> str:
        return getattr(error, "sqlstate", None) or ""

    def outage(self, error: Exception, connection: _Connection) -> bool:
        code = self.code(error)
        return connection.closed or isinstance(error, psycopg.errors._WaitTimeout) or code.startswith(OUTAGES)

    def refused(self, error: Exception) -> bool:
        # FATAL may follow a commit that was written: one that waits for a replica.
        severity = error.diag.severity_nonlocalized if isinstance(error, psycopg.Error) else None
        return severity == "ERROR" and not self.code(error).startswith(OUTAGES)

    def text_of(self, error: Exception) -> str:
        if isinstance(error, psycopg.errors._WaitTimeout):
            return f"Timeout: no answer within {server.REPLY_SECONDS:g} s"
        primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        return primary or " ".join(str(error).split())

    def turned_away(self, error: Exception) -> NotAuthenticated | None:
        text = "" if self.code(error) else self.text_of(error)
        if DENIED.search(text):
            return admission.refused(self.name, text, "the store's URL")
        if UNUSABLE.search(text):
            return NotAuthenticated(f"{self.name}: a file of ours cannot be used: {text[:300]}; correct {CERTIFICATES}")
        why = ""
        if admission.UNTRUSTED.search(text):
            why = admission.reason(_places(self.resolved()), self._said.get("sslrootcert"), _greet)
        return admission.untrusted(self.name, text, CERTIFICATES, why)

    def reading_any_value(self, cursor: psycopg.Cursor[Any]) -> AbstractContextManager[None]:
        for name, loader in _LOADERS.items():
            cursor.adapters.register_loader(name, loader)
        return nullcontext()

    def absent(self, error: Exception) -> str:
        match = ABSENT.search("" if self.code(error) else self.text_of(error))
        return f"create the {match[1]}, or correct the store's URL" if match else ""

    def add_rows(self, db: StoreSession, insert: str, rows: Sequence[Row]) -> None:
        # 200 rows and an entry of 100 KB: 2.7 ms of CPU time here for the whole commit, 3.0 in the server.
        insert += " select %s, * from unnest(%b::bigint[], %b::bytea[])"
        db.run(insert, (rows[0][0], [number for _, number, _ in rows], [value for *_, value in rows]))

    def cold(self, db: StoreSession, key: str, groups: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        yield from db.rows(f"{statements.OF_PARTITION} and group_key = any(%b::bytea[])", (key, list(groups)))

    def drop_cold(self, db: StoreSession, key: str, groups: Sequence[bytes]) -> None:
        db.run(
            "delete from sluicegate_cold where partition_key = %s and group_key = any(%b::bytea[])", (key, list(groups))
        )

    def put_cold(self, db: StoreSession, key: str, groups: Sequence[ColdGroup]) -> None:
        rows = "select %s, * from unnest(%b::bytea[], %b::float8[], %b::bytea[])"
        columns = [list(column) for column in zip(*groups, strict=True)]
        db.run(f"{statements.ADD_COLD} {rows} {self.replacing}", (key, *columns))

    def level(self, ask: Ask) -> Level:
        return judged(*ask(SHOWN)[0])

    def waiter(self) -> Waiter:
        return Listener(self.connect)


def _greet(link: socket.socket) -> None:
    link.sendall(ASK_FOR_TLS)
    link.recv(1)


def judged(version: int, recovers: bool, read_only: str, fsync: str, full_pages: str, synchronous: str) -> Level:
    """The durability that these settings give."""
    settings = (
        (version < LOWEST, f"version is {version // 10000}, below {LOWEST // 10000}"),
        (recovers, "the server is in recovery: a replica, not the primary"),
        (not recovers and read_only != "off", "transactions are read-only (default_transaction_read_only)"),
        (fsync != "on", f"fsync is {fsync}, not on"),
        (full_pages != "on", f"full_page_writes is {full_pages}, not on"),
        (synchronous in ("off", "local"), f"synchronous_commit is {synchronous}, not on"),
    )
    weak = tuple(text for is_weak, text in settings if is_weak)
    return Level("lossy" if weak else "durable", weak)
