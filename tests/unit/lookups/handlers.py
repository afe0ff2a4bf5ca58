"""Handlers with lookups."""

from collections.abc import Mapping
from typing import Any

from sluicegate.connectors.sessions import MemorySession

refused: list[Any] = []
fails: list[Exception] = []
sessions: list[Any] = []


def pay(value: dict[str, Any], lookups: Mapping[str, Any], session: MemorySession, send: Any) -> None:
    """Pays from an account that is open."""
    account = lookups["account"]
    if fails:
        raise fails.pop()
    if account is None or not account["open"]:
        refused.append(value["id"])
        return
    session.values["paid"] = [*session.values.get("paid", []), value["id"]]
    send({"id": value["id"], "currency": account["currency"]})


def total(batch: Any, lookups: Mapping[str, Any], send: Any) -> None:
    send({"key": batch.key, "site": lookups["team"]["site"]})


def told(value: dict[str, Any], lookups: Mapping[str, Any], context: Any) -> None:
    """Sends the currency of the account, and notes the session that it got."""
    if fails:
        raise fails.pop()
    sessions.append(context.session)
    context.send({"currency": lookups["account"]["currency"]})


def notify(value: dict[str, Any], lookups: Mapping[str, Any], send: Any) -> None:
    """The handler of docs/lookups.md."""
    send(lookups["customer"])
