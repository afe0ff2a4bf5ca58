"""Copied as `sitecustomize.py` into a folder of a test: when there is a file `go` in the folder STANDS_STILL, the next
transaction of a leased step on MongoDB stands still before its commit. Its process writes its id to the file
`inside`."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymongo.monitoring

FOLDER = Path(os.environ["STANDS_STILL"])
STEPS = ("buffer/", "timeouts")


class BeforeCommit(pymongo.monitoring.CommandListener):
    def __init__(self) -> None:
        self.locks: dict[bytes, str] = {}

    def started(self, event: Any) -> None:
        command, session = event.command, bytes(event.command["lsid"]["id"]) if "lsid" in event.command else b""
        if command.get("startTransaction"):
            self.locks.pop(session, None)
        if command.get("findAndModify") == "sluicegate_lock":
            self.locks[session] = str(command["query"]["_id"])
        elif command.get("delete") == "sluicegate_timeout":
            self.locks[session] = "timeouts"
        elif event.command_name == "commitTransaction" and self.locks.get(session, "").startswith(STEPS):
            stand_still()

    def succeeded(self, event: Any) -> None: ...

    def failed(self, event: Any) -> None: ...


def stand_still() -> None:
    with suppress(FileNotFoundError):
        (FOLDER / "go").rename(FOLDER / f"{os.getpid()}.gone")
        (FOLDER / f"{os.getpid()}.inside").write_text(str(os.getpid()))
        (FOLDER / f"{os.getpid()}.inside").rename(FOLDER / "inside")
        time.sleep(600)


if "STANDS_STILL_TWIN" in os.environ:
    from sluicegate.connectors.mongodb import left_open

    left_open.end = lambda server, limit: 0

pymongo.monitoring.register(BeforeCommit())
