"""Waiting for a condition, with a deadline: the only place where tests let time pass."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T], timeout: float = 10.0, what: str = "the condition", pause: float = 0.02
) -> T:
    """Call `condition` until it returns something true, and return that. Raises TimeoutError naming `what` after
    `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come true within {timeout:g} s")
        time.sleep(pause)
    return value
