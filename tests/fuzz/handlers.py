"""Handlers of the tests here."""

from typing import Any

import msgspec

called: list[Any] = []


def keep(value: Any) -> None:
    called.append(value)


def too_much(value: Any, send: Any) -> None:
    send({"pad": "x" * 1_100_000})


class Order(msgspec.Struct):
    """A record with its types."""

    id: int
    v: float | str | list[Any] | dict[str, Any] | None = None


def passes(value: Any, send: Any) -> None:
    send(value)


def folded(total: Any, message: Any) -> Any:
    return [message.value, None if total is None else 1]


def fails(rows: list[Any]) -> None:
    raise ValueError(str(rows)[:100])


def typed_rows(rows: list[Order], send: Any) -> None:
    send([{"id": row.id, "v": row.v} for row in rows])


def typed(value: Order, send: Any) -> None:
    send({"id": value.id, "v": value.v})
