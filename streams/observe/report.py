"""What a worker says of itself about once a second: plain values, without keys and payloads.

Ages and lags are seconds; `turned` is the machine's monotonic clock, the same for all its processes.
"""

from collections.abc import Sequence

import msgspec

from sluicegate.streams.observe.metrics import Sample

DISPATCHER = "dispatcher"
"""In place of an agent's name in the report of the process that sends the outbox's rows; no agent has this name."""


class PartitionReport(msgspec.Struct, frozen=True):
    """One assigned partition. `state` is claiming, restoring, running, paused or halted; `error` the code of the error
    that halted it (or `decode-waits`: its intake waits) and `detail` its text. `offset` is the committed one, `high`
    the end of the partition as last heard (-1: unknown). `oldest` is the age of the oldest open group, `next_deadline`
    the seconds until the nearest deadline (negative: overdue), `sealed` counts what slow handlers have yet to end,
    `unsent_age` is the age of the oldest unsent row, `read_age` that of the newest record taken, by the record's own
    time; None where there is none."""

    topic: str
    number: int
    state: str
    offset: int = -1
    high: int = -1
    groups: int = 0
    bytes: int = 0
    oldest: float | None = None
    next_deadline: float | None = None
    sealed: int = 0
    unsent: int = 0
    unsent_age: float | None = None
    read_age: float | None = None
    error: str | None = None
    detail: str | None = None

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end, None while either is unknown."""
        return max(0, self.high - self.offset) if self.high >= 0 and self.offset >= 0 else None

    @property
    def lag_seconds(self) -> float | None:
        """How far behind its end the partition is read, in time; 0 at the end, None while it is unknown."""
        return 0.0 if self.lag == 0 else None if self.lag is None else self.read_age


class WorkerReport(msgspec.Struct, frozen=True):
    """One worker of one agent. `reasons` say why it is not ready or, of one that is, what is not as it should be;
    `turned` is when its loop turned last; `level` is the store's durability and what was found, None before it was
    probed; `delivery` that of the agent."""

    agent: str
    worker: int
    pid: int
    turned: float
    ready: bool
    reasons: Sequence[str] = ()
    partitions: Sequence[PartitionReport] = ()
    level: tuple[str, Sequence[str]] | None = None
    metrics: Sequence[Sample] = ()
    delivery: str = "at-least-once"
