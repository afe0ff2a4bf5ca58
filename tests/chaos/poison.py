"""Reducers and handlers for a file under test: copied beside it."""

import os
import signal
from collections.abc import Callable
from typing import Any


def total(before: int | None, message: dict) -> int:
    """The sum of `v`; a message that says so ends the process, as a broken native library would."""
    if message.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return (before or 0) + message["v"]


def forward(batch: Any, send: Callable[[Any], None]) -> None:
    """What the result would be; a group that says so ends the process."""
    if -1 in batch.value["all"]:
        os.kill(os.getpid(), signal.SIGKILL)
    send(batch.value)
