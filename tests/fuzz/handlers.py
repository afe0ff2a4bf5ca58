"""Handlers of the tests here."""

from typing import Any

called: list[Any] = []


def keep(value: Any) -> None:
    called.append(value)


def too_much(value: Any, send: Any) -> None:
    send({"pad": "x" * 1_100_000})
