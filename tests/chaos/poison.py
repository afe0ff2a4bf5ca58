"""Reducers for a file under test: copied beside it."""

import os
import signal


def total(before: int | None, message: dict) -> int:
    """The sum of `v`; a message that says so ends the process, as a broken native library would."""
    if message.get("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    return (before or 0) + message["v"]
