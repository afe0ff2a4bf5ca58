"""Handlers of test_killed_flow.py, copied beside its file. Each call writes a line of its begin to another file, and
one of its end."""

import os
import time
from typing import Any

FILE = os.open(os.environ.get("FLOW_CALLS", os.devnull), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
LASTS = 0.05


def _note(kind: str, value: Any) -> None:
    os.write(FILE, f"{kind} {value['n']} {time.time()!r}\n".encode())


def throttled(value: Any, send: Any) -> None:
    _note("throttled", value)
    send(value)


def limited(value: Any, send: Any) -> None:
    send(value)


def single(value: Any, send: Any) -> None:
    _note("single", value)
    time.sleep(LASTS)
    _note("ended", value)
    send(value)
