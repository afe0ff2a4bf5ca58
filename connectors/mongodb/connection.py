"""One MongoDB deployment: its client, its transactions and its errors."""

import logging
import os
import random
import re
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from errno import EIO
from typing import Any, TypeVar

import bson
import msgspec
import pymongo
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.driver_info import DriverInfo
from pymongo.errors import BulkWriteError, ConnectionFailure, InvalidName, NetworkTimeout, PyMongoError
from pymongo.errors import ConfigurationError as WrongSetting
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri
from pymongo.write_concern import WriteConcern

from sluicegate.connectors import admission
from sluicegate.connectors.mongodb import left_open
from sluicegate.streams.errors import ConfigurationError, PersistenceError, SystemNotReady, permanent
from sluicegate.streams.urls import StoreAddress

CONNECT_SECONDS = 5
REPLY_SECONDS = 10
WAIT_SECONDS = 2
"""Seconds that a write outside of a transaction waits for a lock."""
GONE_SECONDS = 2
"""Seconds for ending a transaction on a server that could not be reached. The next partition waits meanwhile."""

ATTEMPTS = 8
LONGEST_PAUSE = 0.25
DATABASE = "sluicegate"
SRV = "mongodb+srv://"
STANDALONE = (
    "this MongoDB is not a replica set, and transactions need one: start mongod with --replSet, run rs.initiate() once"
)

CERTIFICATES = "tlsCAFile of the store's URL (tlsCertificateKeyFile is ours)"
FILES = ("tlscafile", "tlscertificatekeyfile", "", "tlscertificatekeyfilepassword")

_ILLEGAL_OPERATION = 20
_AUTHENTICATION_FAILED = 18
_UNAUTHORIZED = 13
_FORM = "mongodb://[user:password@]host[:port][,host...][/database][?options]"

Document = dict[str, Any]
MongoDatabase = Database[Document]
MongoServer = pymongo.MongoClient[Document]
T = TypeVar("T")

# At DEBUG this logger writes our documents.
logging.getLogger("pymongo.command").setLevel(logging.INFO)


def client(url: str, driver: DriverInfo | None = None) -> MongoServer:
    """A client that connects when it is first used. `driver` names the client to the server. An option of the URL that
    pymongo does not know is an error, like an option that it cannot read. Over TLS the server is asked at once whether
    it accepts our certificate, because the driver would retry without giving the reason. Raises ConfigurationError,
    NotAuthenticated."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            _look(url)
            server: MongoServer = pymongo.MongoClient(
                url,
                connect=False,
                tz_aware=True,
                serverSelectionTimeoutMS=CONNECT_SECONDS * 1000,
                connectTimeoutMS=CONNECT_SECONDS * 1000,
                socketTimeoutMS=REPLY_SECONDS * 1000,
                driver=driver,
            )
            server.get_default_database(DATABASE)
    except (WrongSetting, InvalidName, UserWarning, ValueError, TypeError):
        raise ConfigurationError(f"the MongoDB URL cannot be read: {_FORM}") from None
    except OSError as error:
        raise ConfigurationError(
            f"a certificate file that the MongoDB URL names cannot be read: {os.strerror(error.errno or EIO)}"
        ) from None
    if not server.write_concern.acknowledged:
        raise ConfigurationError("the MongoDB URL sets w=0: the outcome of a commit would be unknown; leave w out")
    return server


def _look(url: str) -> None:
    """Checks the certificates of the URL. A URL with further TLS options, or one that a name server must resolve, is
    left to the driver. Raises NotAuthenticated, and the errors of parse_uri."""
    if not url.startswith("mongodb://"):
        return
    read = parse_uri(url)
    options = {str(name).lower(): value for name, value in read["options"].items()}
    if not options.get("tls"):
        return
    tls = admission.context("mongodb", admission.Files(*(str(options.get(name) or "") for name in FILES)), CERTIFICATES)
    if not {name for name in options if name.startswith("tls")} - {"tls", *FILES}:
        admission.knock("mongodb", read["nodelist"], tls, CERTIFICATES, _hello())


def reach(url: str) -> StoreAddress:
    """The hosts of the URL. A name server holds the hosts of mongodb+srv, which asks for TLS unless its options say
    otherwise. Raises ConfigurationError."""
    resolved = url.startswith(SRV)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            read = parse_uri(f"mongodb://{url.removeprefix(SRV)}" if resolved else url)
    except (PyMongoError, ValueError, TypeError, OSError):
        raise ConfigurationError(f"the MongoDB URL cannot be read: {_FORM}") from None
    options = {str(name).lower(): value for name, value in read["options"].items()}
    places = tuple((host, 0 if resolved else port) for host, port in read["nodelist"] if not host.endswith(".sock"))
    return StoreAddress(places, bool(options.get("tls", resolved)))


def _hello() -> bytes:
    """The `hello` command as a message (OP_MSG). Every server answers it."""
    body = bytes(5) + bson.encode({"hello": 1, "$db": "admin"})
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body


def database(server: MongoServer) -> MongoDatabase:
    """The database. Writes wait for a majority and its journal, unless the URL says otherwise; then the durability
    level is weaker."""
    concern: Document = {"w": "majority", "j": True} | server.write_concern.document
    return server.get_default_database(DATABASE).with_options(
        read_preference=pymongo.ReadPreference.PRIMARY,
        write_concern=WriteConcern(**concern),
        read_concern=ReadConcern("majority"),
    )


def transact(
    session: ClientSession, concern: WriteConcern, work: Callable[[ClientSession], T], attempts: int = ATTEMPTS
) -> T:
    """Runs `work` in one transaction. A transaction that certainly did not commit is run again in the same session, so
    that the server ends what the last attempt left open. When the reply of a commit is lost, pymongo asks again until
    the time is up. A lock that stays may belong to a transaction that a process left open; that transaction is ended.
    Raises PersistenceError."""
    end = time.monotonic() + REPLY_SECONDS
    look_at = time.monotonic() + left_open.LOOK_AFTER
    with answering():
        for attempt in range(1, attempts + 1):
            try:
                return _attempt(session, concern, work)
            except PyMongoError as error:
                if attempt == attempts or time.monotonic() > end or not gave_up(error):
                    raise
            if time.monotonic() >= look_at:
                left_open.end(session.client, REPLY_SECONDS)
                look_at = time.monotonic() + left_open.LOOK_EVERY
            # Random pauses, so that transactions that conflicted do not meet again.
            time.sleep(min(0.005 * 2**attempt, LONGEST_PAUSE) * random.uniform(0.5, 1))
        raise AssertionError("the last attempt returns or raises")


def outside(server: MongoServer, write: Callable[[], T]) -> T:
    """Runs a write outside of a transaction, within `answering`. The write waits for a lock inside the server, which
    reports no conflict meanwhile. So it is begun again every WAIT_SECONDS, after transactions that a process left open
    were ended. The write must be idempotent."""
    end = time.monotonic() + REPLY_SECONDS
    while True:
        try:
            with pymongo.timeout(WAIT_SECONDS):
                return write()
        except PyMongoError as error:
            if not error.timeout or time.monotonic() > end:
                raise
        left_open.end(server, REPLY_SECONDS)


def gave_up(error: BaseException) -> bool:
    """Whether the server has certainly not committed the transaction."""
    return isinstance(error, PyMongoError) and error.has_error_label("TransientTransactionError")


def _attempt(session: ClientSession, concern: WriteConcern, work: Callable[[ClientSession], T]) -> T:
    session.start_transaction(ReadConcern("snapshot"), concern, pymongo.ReadPreference.PRIMARY)
    try:
        result = work(session)
        session.commit_transaction()
        return result
    except BaseException as error:
        _end(session, error)
        raise


def _end(session: ClientSession, error: BaseException) -> None:
    """Ends the transaction at the server, even when the time of `answering` is over. The driver alone would then send
    nothing, and the locks of the transaction would stay for transactionLifetimeLimitSeconds."""

    if not session.in_transaction and gave_up(error):
        return  # the commit failed: the server has ended the transaction

    def end() -> None:
        with suppress(PyMongoError), pymongo.timeout(time_to_end(error)):
            if session.in_transaction:
                session.abort_transaction()
            else:  # it is unknown whether the commit landed
                session.client.admin.command("killSessions", [session.session_id])

    Context().run(end)  # an empty context: the limit of `answering` does not hold in it


_SETTINGS = re.compile(r" \(configured timeouts: [^)]*\)|, Timeout: .*", re.DOTALL)
"""What the driver adds to an error: its own settings and its view of all servers."""


def time_to_end(error: BaseException) -> float:
    """Seconds for ending, at the server, a transaction that failed with this error."""
    gone = isinstance(error, ConnectionFailure) and not isinstance(error, NetworkTimeout)
    return GONE_SECONDS if gone else REPLY_SECONDS


@contextmanager
def answering() -> Iterator[None]:
    """Gives the block REPLY_SECONDS. Turns the driver's errors into ours, without the documents that the server
    quotes."""
    try:
        with pymongo.timeout(REPLY_SECONDS):
            yield
    except BulkWriteError as error:
        # It quotes documents, so it is not kept as the cause.
        codes = sorted({detail.get("code") for detail in error.details["writeErrors"]})
        raise PersistenceError(f"mongodb: BulkWriteError: {codes}") from None
    except PyMongoError as error:
        if getattr(error, "code", None) == _ILLEGAL_OPERATION and "replica set" in str(error):
            raise SystemNotReady(STANDALONE) from error
        text = _SETTINGS.sub("", str(error).split(", full error:")[0].split(" dup key:")[0])
        if getattr(error, "code", None) == _AUTHENTICATION_FAILED:
            raise admission.refused("mongodb", text, "the store's URL") from error
        if getattr(error, "code", None) == _UNAUTHORIZED:
            hint = "write user and password into the store's URL, or grant this user readWrite and clusterMonitor"
            raise permanent(PersistenceError(f"mongodb: not authorized: {text[:300]}; {hint}")) from error
        untrusted = admission.untrusted("mongodb", text, CERTIFICATES)
        raise untrusted or PersistenceError(f"mongodb: {type(error).__name__}: {text[:300]}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
        raise PersistenceError(f"mongodb: a stored value cannot be read: {type(error).__name__}") from error
