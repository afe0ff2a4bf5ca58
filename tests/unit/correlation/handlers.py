"""The functions that the files of these tests name."""

from collections.abc import Mapping
from typing import Any


def enter(batch: Any, send: Any, session: Any) -> None:
    """A row for each group, in the transaction of the store."""
    paid = batch.value["payment"] is not None
    session.connection.exec_driver_sql("insert into settled values (?, ?)", (batch.key, int(paid)))
    send({"paid": paid})


def refuse(batch: Any, session: Any) -> None:
    """The row is undone with the group that cannot be used."""
    session.connection.exec_driver_sql("insert into settled values (?, 1)", (batch.key,))
    raise ValueError("no")


def tier_of(batch: Any, send: Any, lookups: Mapping[str, Any]) -> None:
    """What is sent has the row of the group."""
    send({"tier": lookups["customer"]["tier"]})
