"""Handlers that schedule: what a message asks for in its `do`."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

ids: list[UUID] = []
fails: list[Exception] = []


def reset() -> None:
    ids.clear()
    fails.clear()


def remind(message: Any, schedule: Any, cancel: Any, send: Any) -> None:
    """`{do: ..., n: ...}`; a reminder that comes back is sent on with what came with it."""
    value = message.value
    match value["do"]:
        case "remind":
            ids.append(
                schedule({"do": "told", "n": value["n"]}, after=60, name=value.get("name"), headers=[("h", "x")])
            )
        case "elsewhere":
            schedule([value["n"]], at=datetime(2026, 1, 1, 0, 1, tzinfo=UTC), topic="else", key="other")
        case "cancel":
            cancel(value["name"])
        case "cancel-id":
            cancel(ids[0])
        case "two":
            schedule({"do": "told", "n": 1}, after=timedelta(minutes=1))
            schedule(b'{"do": "told", "n": 2}', after=120.0)
        case "told":
            headers = dict(message.headers)
            send(
                {
                    "n": value["n"],
                    "h": headers["h"].decode() if "h" in headers else None,
                    "id": headers["sluicegate-timeout-id"].decode(),
                }
            )
    if fails and value["do"] != "told":
        raise fails.pop()


def remind_in_session(message: Any, session: Any, schedule: Any, cancel: Any, send: Any) -> None:
    session.values["calls"] = session.values.get("calls", 0) + 1
    remind(message, schedule, cancel, send)


def of_batch(batch: Any, context: Any) -> None:
    context.schedule({"count": batch.count}, after=30, topic="late")


def wrong(value: Any, schedule: Any, send: Any) -> None:
    """Says what each call that is wrong raises."""
    calls: list[dict[str, Any]] = [
        {},
        {"after": 1, "at": datetime.now(UTC)},
        {"after": -1},
        {"after": float("nan")},
        {"after": float("inf")},
        {"at": datetime(2026, 1, 1)},
        {"at": 5},
        {"after": 1, "headers": [("h", b"x" * 2_000_000)]},
    ]
    for call in calls:
        try:
            schedule(b"", **call)
        except ValueError as error:
            send(str(error))
