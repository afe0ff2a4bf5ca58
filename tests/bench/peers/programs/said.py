"""What a program tells the bench, as JSON lines on stderr: its process, and when its first record is at hand. Needs the
standard library alone: the programs run in the environment of the peers."""

import json
import os
import sys
import time

COUNT = 100
AFTER = 600.0  # seconds after which a smaller group ends
_first: list[bool] = []


def started() -> None:
    _say("worker.started")


def first() -> None:
    """To be called with each record."""
    if not _first:
        _first.append(True)
        _say("loop.first", at=time.monotonic(), cpu=time.process_time())


def _say(event: str, **fields: float) -> None:
    sys.__stderr__.write(json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n")  # type: ignore[union-attr]
    sys.__stderr__.flush()  # type: ignore[union-attr]
