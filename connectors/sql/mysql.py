"""MySQL and MariaDB with PyMySQL. A change of the schema cannot be rolled back."""

import re
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from urllib.parse import unquote

import pymysql
from pymysql.constants import CLIENT
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from sluicegate.connectors import admission
from sluicegate.connectors.sql import server
from sluicegate.connectors.sql.database import Ask, Row, StoreSession
from sluicegate.connectors.sql.leased.lending import Lender
from sluicegate.streams.contracts.values import Level
from sluicegate.streams.errors import ConfigurationError, NotAuthenticated
from sluicegate.streams.urls import StoreAddress

LOWEST = {"mariadb": (10, 6), "mysql": (8, 0)}
FLAGS = {"ssl_verify_cert", "ssl_verify_identity"}
OPTIONS = {"unix_socket", "ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password", *FLAGS}
CERTIFICATES = "ssl_ca of the store's URL (ssl_cert, ssl_key and ssl_key_password are ours)"
FILES = ("ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password")
CUT_OFF = re.compile(r"EOF occurred|reset by peer|Broken pipe|during query")
TRUTH = {"true": True, "false": False}
# Bytes travel as hexadecimal text: an entry of 4 MiB needs more than 8.
PACKET_BYTES = 10 * 1024 * 1024
SYNTAX_ERROR = "1064"
ACCESS_DENIED = ("1045", "1698", "3118", "4151")
ABSENT = {
    "1044": "grant the user all privileges on this database, or correct the store's URL",
    "1049": "create the database, or correct the store's URL",
}

# Disk full, too many connections, shutdown, killed, read-only, table full, statement or idle timeout.
OUTAGES = {"1021", "1040", "1053", "1114", "1290", "1317", "1836", "1927", "1969", "3024", "4031"}

SETTINGS = (
    "set session transaction isolation level read committed",
    "set session innodb_lock_wait_timeout = 5",
    "set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "set session time_zone = '+00:00'",
    # Bounds how long a worker that stopped inside a commit locks its row. MariaDB only: a comment for MySQL.
    "/*M! set session idle_transaction_timeout = 4 */",
)
SHOW = """
show global variables where variable_name in ('version', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite',
  'read_only', 'log_bin', 'sync_binlog', 'max_allowed_packet')"""
OTHER_ENGINES = """
select table_name from information_schema.tables
where table_schema = database() and table_name like 'sluicegate%%' and engine <> 'InnoDB' order by table_name"""


class _MysqlSession(StoreSession):
    def __init__(self, connection: "pymysql.Connection[Any]") -> None:
        self.connection = connection

    def run(self, text: str, values: Sequence[object] = ()) -> Any:
        cursor = self.connection.cursor()
        cursor.execute(text, values)
        return cursor


class Mysql(server.SqlServer):
    name = "mysql"
    errors: type[Exception] = pymysql.Error
    # Deadlock and lock wait timeout. The connection is closed, which rolls back after a lock wait timeout, too.
    retryable = frozenset(("1213", "1205"))
    no_table = "1146"
    dialect = "mysql"
    sharing = " lock in share mode"  # MariaDB does not know `for share`
    begin_reading: Sequence[str] = (
        "set transaction isolation level repeatable read",
        "start transaction with consistent snapshot, read only",
    )
    begin_migrating: Sequence[str] = ("do get_lock(concat('sluicegate.', database()), 60)",)
    end_migrating = "do release_lock(concat('sluicegate.', database()))"
    # Not `begin`: after a deadlock or an implicit commit, the next statements must not autocommit.
    begin_unit: Sequence[str] = ("set autocommit = 0",)
    end_unit: Sequence[str] = ("commit", "set autocommit = 1")
    undo_unit: Sequence[str] = ("rollback", "set autocommit = 1")
    ended = frozenset(("1305",))
    steps_exist = (
        "select count(*) from information_schema.tables where table_schema = database() and table_name = "
        "'sluicegate_step'"
    )
    column_exists = (
        "select 1 from information_schema.columns where table_schema = database() and table_name = %s and "
        "column_name = %s"
    )
    replacing = "on duplicate key update due = values(due), state = values(state)"
    clock = "select unix_timestamp(sysdate(6)) + 0e0"

    def __init__(self, url: str) -> None:
        try:
            target = make_url(url)
            unknown = set(target.query) - OPTIONS
            if unknown or not target.database:
                raise ValueError
            # The driver checks no certificate when only ssl_ca is given.
            options: dict[str, Any] = dict.fromkeys(FLAGS, True) if "ssl_ca" in target.query else {}
            options |= {name: TRUTH[str(value)] if name in FLAGS else value for name, value in target.query.items()}
        except (ArgumentError, ValueError, KeyError):
            hint = f"options are {', '.join(sorted(OPTIONS))}; the verify options are true or false"
            raise ConfigurationError(
                f"the MySQL URL cannot be read: mysql://[user:password@]host[:port]/database; {hint}"
            ) from None
        self._target: dict[str, Any] = target.translate_connect_args(username="user") | options
        self._target["database"] = unquote(target.database)  # SQLAlchemy leaves it as it is written
        if target.password is not None:
            self._target["password"] = str(target.password).encode()  # the driver would write text as Latin-1
        self.lender = Lender("mysql+pymysql://")

    def reach(self) -> StoreAddress:
        """The driver connects without TLS, unless one of FILES or FLAGS is given."""
        tls = any(self._target.get(name) for name in (*FILES[:3], *FLAGS))
        place = str(self._target.get("host", "localhost")), int(self._target.get("port", 3306))
        return StoreAddress((), tls) if "unix_socket" in self._target else StoreAddress((place,), tls)

    def _context(self) -> ssl.SSLContext:
        return admission.context(
            self.name, admission.Files(*(str(self._target.get(name, "")) for name in FILES)), CERTIFICATES
        )

    def connect(self) -> "pymysql.Connection[Any]":
        if any(name in self._target for name in FILES):
            self._context()
        connection: pymysql.Connection[Any] = pymysql.connect(
            **self._target,
            autocommit=True,
            charset="utf8mb4",
            # The row count of an update includes matched rows that did not change.
            client_flag=CLIENT.FOUND_ROWS,
            connect_timeout=server.CONNECT_SECONDS,
            read_timeout=server.REPLY_SECONDS,
            write_timeout=server.REPLY_SECONDS,
        )
        session = _MysqlSession(connection)
        for text in SETTINGS:
            session.run(text)
        return connection

    def session(self, connection: "pymysql.Connection[Any]") -> AbstractContextManager[StoreSession]:
        return nullcontext(_MysqlSession(connection))

    def code(self, error: Exception) -> str:
        """PyMySQL's own codes, 0 and 2000 to 2999, mean that the connection failed."""
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        return "" if number == 0 or 2000 <= number < 3000 else str(number)

    def outage(self, error: Exception, connection: "pymysql.Connection[Any]") -> bool:
        code = self.code(error)
        return code in OUTAGES or (
            not code and not isinstance(error, pymysql.err.ProgrammingError | pymysql.err.NotSupportedError)
        )

    def text_of(self, error: Exception) -> str:
        return "" if self.code(error) == SYNTAX_ERROR else " ".join(str(arg) for arg in error.args[1:])

    def turned_away(self, error: Exception) -> NotAuthenticated | None:
        if self.code(error) in ACCESS_DENIED:
            # MySQL answers the same when it requires a certificate of the user.
            certified = "" if self._target.get("ssl_cert") else " (which names no ssl_cert, should the user need one)"
            return admission.refused(self.name, self.text_of(error), f"the store's URL{certified}")
        text = self.text_of(error)
        if {"ssl_cert", "host"} <= self._target.keys() and CUT_OFF.search(text):
            place = str(self._target["host"]), int(self._target.get("port", 3306))
            text = admission.alert(place, self._context(), _ask_for_tls) or text
        return admission.untrusted(self.name, text, CERTIFICATES)

    def absent(self, error: Exception) -> str:
        return ABSENT.get(self.code(error), "")

    def if_absent(self, insert: str) -> str:
        return insert.replace("insert into", "insert ignore into")

    def add_rows(self, db: StoreSession, insert: str, rows: Sequence[Row]) -> None:
        # For 200 rows of 400 bytes: 0.3 ms of CPU time, 0.7 ms when the driver escapes each value.
        key = rows[0][0].encode().hex()
        for page in _pages(rows):
            values = ", ".join([f"(x'{key}', {number:d}, x'{value.hex()}')" for _, number, value in page])
            db.run(f"{insert} values {values}")

    def level(self, ask: Ask) -> Level:
        shown = {str(name).lower(): str(value) for name, value in ask(SHOW)}
        return judged(shown, [name for (name,) in ask(OTHER_ENGINES)])


def reach(url: str) -> StoreAddress:
    """Raises ConfigurationError."""
    return Mysql(url).reach()


def _pages(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Pages of at least one row and about BULK_BYTES."""
    first = size = 0
    for at, (*_, value) in enumerate(rows):
        if size and size + len(value) > server.BULK_BYTES:
            yield rows[first:at]
            first, size = at, 0
        size += len(value) + 1
    if rows:
        yield rows[first:]


def judged(shown: dict[str, str], other_engines: Sequence[str]) -> Level:
    """The durability that these settings give. A setting that cannot be read counts as weak."""
    weak = [*_weak(shown), *(f"the table {name} is not InnoDB's" for name in other_engines)]
    return Level("lossy" if weak else "durable", tuple(weak))


def _weak(shown: dict[str, str]) -> Iterator[str]:
    version = shown.get("version", "0")
    lowest = LOWEST["mariadb" if "mariadb" in version.lower() else "mysql"]
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < lowest:
        yield f"version is {version}, below {'.'.join(map(str, lowest))}"
    wanted: tuple[tuple[str, Sequence[str]], ...] = (
        ("innodb_flush_log_at_trx_commit", ("1",)),
        ("innodb_doublewrite", ("ON", "1", "FAST")),
        ("read_only", ("OFF", "0")),
    )
    if shown.get("log_bin", "OFF") in ("ON", "1"):
        wanted += (("sync_binlog", ("1",)),)
    for name, good in wanted:
        if shown.get(name, "unknown").upper() not in good:
            yield f"{name} is {shown.get(name, 'unknown')}, not {good[0]}"
    if int(shown.get("max_allowed_packet", "0")) < PACKET_BYTES:
        yield (
            f"max_allowed_packet is {shown.get('max_allowed_packet')}, below {PACKET_BYTES}: large entries would "
            "be refused"
        )


def _ask_for_tls(link: socket.socket) -> None:
    """Read the server's greeting, and ask for TLS."""
    with link.makefile("rb") as stream:
        stream.read(int.from_bytes(stream.read(4)[:3], "little"))
    flags = CLIENT.SSL | CLIENT.PROTOCOL_41 | CLIENT.SECURE_CONNECTION
    link.sendall(struct.pack("<I", 32 | 1 << 24) + struct.pack("<IIB23x", flags, PACKET_BYTES, 45))
