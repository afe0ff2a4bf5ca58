"""Copied as `sitecustomize.py` beside a test's file: writes to TURN_TIMES how long each turn of a worker's loop took that took more than
half a second; and each transaction stands before its cursor is added while there is a file `TURN_TIMES.hold`."""

import os
import time
from pathlib import Path
from typing import Any

from connectors.kafka.transactions import KafkaTransactions
from streams.engine.worker import Worker

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
