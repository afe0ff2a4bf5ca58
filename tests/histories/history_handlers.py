"""Handlers of the workloads, for a file under test: copied beside it as `history_handlers`."""

from typing import Any

from sqlalchemy import text

READ = text("select element from history_items where list = :key order by place, element")
APPEND = text("insert into history_items (list, place, element) values (:key, :place, :element)")
AFTER = 1.5  # seconds until a timeout of a job


def transact(value: dict[str, Any], session: Any, send: Any) -> None:
    """All operations of the record in the store's transaction, and a result with what it read."""
    operations = [[kind, key, _run(session.connection, kind, key, element)] for kind, key, element in value["txn"]]
    send({"e": value["e"], "txn": operations})


def _run(connection: Any, kind: str, key: str, element: Any) -> Any:
    elements = list(connection.execute(READ, {"key": key}).scalars())
    if kind == "r":
        return elements
    connection.execute(APPEND, {"key": key, "place": len(elements), "element": element})
    return element


def job(value: dict[str, Any], send: Any, schedule: Any) -> None:
    """Two outputs at once, and a third one when the timeout comes back as a record."""
    if "timeout" in value:
        send({"e": f"{value['timeout']}!"})
        return
    send({"e": f"{value['e']}a"})
    send({"e": f"{value['e']}b"})
    schedule({"timeout": value["e"]}, after=AFTER)
