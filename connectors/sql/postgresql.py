"""What is PostgreSQL's own: psycopg 3, and statements sent without a wait for each answer."""

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from sluicegate.connectors import admission
from sluicegate.connectors.sql import server
from sluicegate.connectors.sql.database import Ask, Row, StoreSession, Waiter
from sluicegate.connectors.sql.lending import Lender
from sluicegate.connectors.sql.listening import Listener
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import ConfigurationError, NotAuthenticated

LOWEST = 130000
CERTIFICATES = "sslrootcert of the store's URL (sslcert, sslkey and sslpassword are ours)"
# What libpq says of a server that does not let us in: it has no codes before it is connected.
DENIED = re.compile(
    r"(password|peer|ident|certificate|SCRAM).* authentication failed|no pg_hba.conf entry|no password supplied"
)
# The role or the database of the URL is not there.
ABSENT = re.compile(r'FATAL: +(role|database) ".*" does not exist')
# What it says of a file of our own.
UNUSABLE = re.compile(r"private key file|could not (load|read) .*certificate file|certificate file .* does not exist")
ASK_FOR_TLS = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
# A worker that was stopped inside a commit holds its row no longer than this; from 17 on also when it was stopped while
# it sent.
SETTINGS = (
    "set idle_in_transaction_session_timeout = '4s'",
    "set lock_timeout = '6s'",
    "set statement_timeout = '15s'",
    "select set_config(name, '15s', false) from pg_settings where name = 'transaction_timeout'",
)
# Connection, resources, operator (timeouts among them), system, a lock that was not to be had; then idle or too long in
# a transaction.
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


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """libpq waits for an answer as long as the server's machine lives; this one does not."""

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, server.REPLY_SECONDS if timeout is None else timeout)


def _sent(link: PGconn) -> PQGen[None]:
    """psycopg (3.3.8) goes on to wait for answers with the rest of a large statement still unsent, and then waits for
    ever."""
    while link.flush():
        if (yield Wait.RW) & Ready.R:
            link.consume_input()


class _PostgresqlSession:
    def __init__(self, connection: _Connection, pipeline: psycopg.Pipeline) -> None:
        self.connection = connection
        self._pipeline = pipeline

    def run(self, text: str, values: Sequence[object] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        cursor = self.connection.execute(text.encode(), values)
        self.connection.wait(_sent(self.connection.pgconn))
        return cursor

    def rows(self, text: str, values: Sequence[object] = ()) -> Sequence[tuple[Any, ...]]:
        cursor = self.run(text, values)
        # A fetch alone would not end the batch: for the server a worker that stops then is not idle, and it would wait
        # for ever.
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
    # No such savepoint, no transaction.
    ended = frozenset(("3B001", "25P01"))
    aborted = frozenset(("25P02",))
    steps_exist = "select to_regclass('sluicegate_step') is not null"
    clock = "select extract(epoch from clock_timestamp())::float8"

    def __init__(self, url: str) -> None:
        try:
            self._said = {name: str(value) for name, value in conninfo_to_dict(url).items()}
        except psycopg.ProgrammingError:
            raise ConfigurationError(
                "the PostgreSQL URL cannot be read: postgresql://[user:password@]host[:port]/database"
            ) from None
        self._url = url
        self.lender = Lender("postgresql+psycopg://", use_native_hstore=False)

    def connect(self) -> _Connection:
        # Without any password libpq would ask the terminal for that of an encrypted key.
        quiet: dict[str, Any] = {} if "sslpassword" in self._said else {"sslpassword": "none was given"}  # nosec B105
        made = _Connection.connect(
            self._url, autocommit=True, connect_timeout=server.CONNECT_SECONDS, **KEEPALIVE, **quiet
        )
        with made.pipeline():
            for text in SETTINGS:
                made.execute(text)
        return made

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
        # FATAL may come after the commit was written: while it waits for a replica.
        said = error.diag.severity_nonlocalized if isinstance(error, psycopg.Error) else None
        return said == "ERROR" and not self.code(error).startswith(OUTAGES)

    def said(self, error: Exception) -> str:
        if isinstance(error, psycopg.errors._WaitTimeout):
            return f"Timeout: no answer within {server.REPLY_SECONDS:g} s"
        primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
        return primary or " ".join(str(error).split())

    def turned_away(self, error: Exception) -> NotAuthenticated | None:
        text = "" if self.code(error) else self.said(error)
        if DENIED.search(text):
            return admission.refused(self.name, text, "the store's URL")
        if UNUSABLE.search(text):
            return NotAuthenticated(f"{self.name}: a file of ours cannot be used: {text[:300]}; correct {CERTIFICATES}")
        why = (
            admission.reason(self._places(), self._said.get("sslrootcert"), _greet)
            if admission.UNTRUSTED.search(text)
            else ""
        )
        return admission.untrusted(self.name, text, CERTIFICATES, why)

    def absent(self, error: Exception) -> str:
        found = ABSENT.search("" if self.code(error) else self.said(error))
        return f"create the {found[1]}, or correct the store's URL" if found else ""

    def _places(self) -> Sequence[tuple[str, int]]:
        hosts, ports = self._said.get("host", "").split(","), self._said.get("port", "").split(",")
        given = [int(port or 5432) for port in ports]
        return [
            (host, given[min(at, len(given) - 1)]) for at, host in enumerate(hosts) if host and not host.startswith("/")
        ]

    def add_rows(self, db: StoreSession, insert: str, rows: Sequence[Row]) -> None:
        # 200 rows and an entry of 100 KB: 2.7 ms of CPU time here for the whole commit, 3.0 in the server.
        insert += " select %s, * from unnest(%b::bigint[], %b::bytea[])"
        db.run(insert, (rows[0][0], [number for _, number, _ in rows], [value for *_, value in rows]))

    def level(self, ask: Ask) -> Level:
        return judged(*ask(SHOWN)[0])

    def waiter(self) -> Waiter:
        return Listener(self.connect)


def _greet(link: socket.socket) -> None:
    link.sendall(ASK_FOR_TLS)
    link.recv(1)


def judged(version: int, recovers: bool, read_only: str, fsync: str, full_pages: str, synchronous: str) -> Level:
    """The level that these settings give."""
    weak = []
    if version < LOWEST:
        weak.append(f"version is {version // 10000}, below {LOWEST // 10000}")
    if recovers:
        weak.append("the server is in recovery: a replica, not the primary")
    elif read_only != "off":
        weak.append("transactions are read-only (default_transaction_read_only)")
    if fsync != "on":
        weak.append(f"fsync is {fsync}, not on")
    if full_pages != "on":
        weak.append(f"full_page_writes is {full_pages}, not on")
    if synchronous in ("off", "local"):
        weak.append(f"synchronous_commit is {synchronous}, not on")
    return Level("lossy" if weak else "durable", tuple(weak))
