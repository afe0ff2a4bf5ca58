"""What a worker reports about once a second: plain values, without keys and payloads.

Ages and lags are seconds. `turned` is by the monotonic clock, which all processes of a machine share.
"""

from collections.abc import Sequence

import msgspec

from sluicegate.streams.observe.metrics import Sample

DISPATCHER = "dispatcher"
"""Replaces the name of the agent in the report of the process that sends the rows of the outbox."""


class PartitionReport(msgspec.Struct, frozen=True):
    """One assigned partition. None where there is no value.

    `state`: claiming, restoring, running, paused or halted. `error` and `detail`: the code and the text of the error
    that halted it; the code `decode-waits` means that its intake waits. `offset`: committed; `high`: the end of the
    partition as last heard; -1: unknown. `oldest`: age of the oldest open group. `next_deadline`: seconds until it,
    negative when overdue. `sealed`: items that wait for slow handlers. `unsent_age`: of the oldest unsent row.
    `read_age`: of the newest record taken, by the record's own time.
    """

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
        """Records between the committed offset and the end; None while either is unknown."""
        return max(0, self.high - self.offset) if self.high >= 0 and self.offset >= 0 else None

    @property
    def lag_seconds(self) -> float | None:
        """How far behind the end the reader is in time; 0 at the end, None while it is unknown."""
        return 0.0 if self.lag == 0 else None if self.lag is None else self.read_age


class WorkerReport(msgspec.Struct, frozen=True):
    """One worker of one agent. `reasons` say why it is not ready; those of a ready worker say what is degraded.
    `turned`: when its loop turned last. `level`: the durability of the store and its reasons, None until it is known.
    """

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
