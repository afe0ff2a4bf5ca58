"""The handler of failures.yaml."""

from typing import Any


def notify(value: Any, send: Any) -> None:
    send({"failed": len(value["attempts"])})
