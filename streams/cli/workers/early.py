"""Ends `sluicegate run` with exit code 0 at a SIGTERM or SIGINT that comes before the supervisor listens.

The command imports this module first, because the other imports and reading the file take up to a second. Until then
nothing has started, so nothing must be drained. The supervisor replaces these handlers with its own.
"""

import os
import signal
import sys
from pathlib import PurePath
from types import FrameType


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def _is_run(script: str, arguments: list[str]) -> bool:
    """Whether the process is `sluicegate run`, or `python -m sluicegate run`."""
    path = PurePath(script)
    is_command = path.name == "sluicegate" or path.parts[-2:] == ("sluicegate", "__main__.py")
    return is_command and arguments[:1] == ["run"]


if _is_run(sys.argv[0], sys.argv[1:]):
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
