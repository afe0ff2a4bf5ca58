"""Ends transactions whose process has died, or can no longer commit them. MongoDB would keep their locks for a minute
(transactionLifetimeLimitSeconds).

The server shows each user the user's own sessions and connections, and lets the user end them: no privilege is needed.
Each of our clients marks its connections. The server shows the mark of an open transaction, too. One is ended when:

* No connection has the mark any more: the process has died, or it has lost its connections. In the second case it
  begins the transaction again.
* The transaction has been open for REPLY_SECONDS: nothing runs longer under `connection.transact`, so its process has
  given it up, or stands still. An application's transaction may take its time, so this does not end it.

Only liveness depends on this: each step compares the state that it expects with the state that it finds.
"""

import uuid
from contextlib import suppress
from typing import Any

import pymongo
from pymongo.driver_info import DriverInfo
from pymongo.errors import PyMongoError

LOOK_AFTER, LOOK_EVERY = 0.3, 1.0
"""Seconds of conflicts before the first search for open transactions, and between two searches."""

_MARK, _APPLICATION = "sluicegate-", "sluicegate-application-"
_EVERYTHING = {"allUsers": False, "idleSessions": True, "idleConnections": True}


def mark(application: bool = False) -> DriverInfo:
    """A new mark for one client. `application`: the transactions of the client belong to the application."""
    return DriverInfo("sluicegate", (_APPLICATION if application else _MARK) + uuid.uuid4().hex)


def end(server: "pymongo.MongoClient[dict[str, Any]]", limit: float) -> int:
    """Ends transactions that marked clients of this user left open, and returns their number. `limit` is in seconds. An
    error of the server is ignored: the caller will try its own transaction again."""
    with suppress(PyMongoError):
        admin = server.get_database("admin", read_preference=pymongo.ReadPreference.PRIMARY)
        seen = list(admin.aggregate([{"$currentOp": _EVERYTHING}]))
        alive = {_mark_of(session) for session in seen if session.get("type") != "idleSession"}
        ended = [{"id": session["lsid"]["id"]} for session in seen if _left_open(session, alive, limit)]
        if ended:
            admin.command("killSessions", ended)
        return len(ended)
    return 0


def _left_open(operation: dict[str, Any], alive: set[str], limit: float) -> bool:
    if operation.get("type") != "idleSession" or "transaction" not in operation or _MARK not in _mark_of(operation):
        return False
    late = _APPLICATION not in _mark_of(operation) and operation["transaction"]["timeOpenMicros"] >= limit * 1e6
    return _mark_of(operation) not in alive or late


def _mark_of(operation: dict[str, Any]) -> str:
    return str(operation.get("clientMetadata", {}).get("driver", {}).get("version", ""))
