"""Copied as `sitecustomize.py` into a folder of a test: writes the seconds of each turn of a worker's loop that took
more than half a second to the file TURN_TIMES. Transactions wait before they add their cursor while `TURN_TIMES.hold`
exists."""

import os
import time
from pathlib import Path
from typing import Any

from sluicegate.connectors.kafka.transactions import KafkaTransactions
from sluicegate.streams.engine.worker import Worker

OUT = Path(os.environ["TURN_TIMES"])
HOLD, HELD = OUT.with_suffix(".hold"), OUT.with_suffix(".held")
SLOW = 0.5


def patch() -> None:
    turn, add = Worker.turn, KafkaTransactions._add

    def timed(self: Worker) -> None:
        begun = time.monotonic()
        turn(self)
        if (took := time.monotonic() - begun) > SLOW:
            with OUT.open("a") as out:
                out.write(f"{took:.2f}\n")

    def held(self: KafkaTransactions, cursor: Any) -> None:
        while HOLD.exists():
            HELD.touch()
            time.sleep(0.05)
        begun = time.monotonic()
        try:
            add(self, cursor)
        finally:
            if (took := time.monotonic() - begun) > SLOW:
                with OUT.with_suffix(".adds").open("a") as out:
                    out.write(f"{took:.2f}\n")

    Worker.turn, KafkaTransactions._add = timed, held  # type: ignore[method-assign]


patch()
