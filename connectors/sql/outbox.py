"""The outbox in a SQL store, on a file or on a server."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from connectors.sessions import SqlSession, joined
from connectors.sql.outbox_rows import lanes, write_rows
from connectors.sql.transactions import Transactions
from streams.leased.messages import OutboxMessage
from streams.leased.options import OutboxOptions

__all__ = ["SqlOutbox", "write_rows"]


class SqlOutbox:
    """Any thread may call."""

    def __init__(self, transactions: Transactions, options: OutboxOptions) -> None:
        self._transactions, self._options = transactions, options

    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        if joined(session, SqlSession, require_transaction):
            self._write(session.connection, messages)
        else:
            self._transactions.run(lambda connection: self._write(connection, messages))

    def _write(self, connection: Connection, messages: Sequence[OutboxMessage]) -> None:
        write_rows(connection, messages, self._transactions.now(connection))

    def lanes(self) -> int:
        return self._transactions.run(lanes)
