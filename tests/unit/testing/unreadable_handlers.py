"""Functions of the files in test_unreadable.py."""

from typing import Any

import msgspec


class Order(msgspec.Struct):
    v: int


def pairs(value: Any, send: Any) -> None:
    send({"rows": value["rows"]})


def counted(total: Any, message: Any) -> Any:
    return (total or 0) + len(message)


def typed(value: Order, send: Any) -> None:
    send({"v": value.v})
