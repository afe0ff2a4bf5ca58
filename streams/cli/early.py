"""Ends `sluicegate run` with 0 at a SIGTERM or SIGINT that comes before the supervisor listens.

The command imports this module first, because the other imports and reading the file take up to a second. Until then
nothing has started, so there is nothing to drain. The supervisor replaces these handlers with its own.
"""

import os
import signal
import sys
from types import FrameType


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


if os.path.basename(sys.argv[0]) == "sluicegate" and sys.argv[1:2] == ["run"]:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
