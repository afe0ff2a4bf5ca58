"""The report that a worker sends about once a second. It has plain values, without keys and payloads.

Ages and lags are in seconds. `turned` is a time of the monotonic clock, which all processes of a machine share.
"""

from collections.abc import Sequence
from typing import Self

import msgspec

from sluicegate.streams.observe.metrics import Sample

DISPATCHER = "dispatcher"
"""Replaces the name of the agent in the report of the process that sends the rows of the outbox."""


FAILED = "failed"
"""The code of a failure after which the partition is claimed and tried again."""

AGES = ("oldest", "unsent_age", "read_age", "watermark_lag")
"""The fields of a PartitionReport that grow while no work is done."""


class PartitionReport(msgspec.Struct, frozen=True):
    """One assigned partition. A field without a value is None.

    - `state`: claiming, restoring, running, paused or halted.
    - `error`, `detail`: the code and the text of the error that halted it. With the code `decode-waits` its intake
      waits; with the code `failed` it is claimed and tried again.
    - `offset`, `high`: the committed offset, and the last known end of the partition; -1 if unknown.
    - `end`: the offset up to which the partition was read if no record follows the committed offset, because
      transactions take offsets that hold no record. -1: records follow, or it is not known.
    - `oldest`: the age of the oldest open group.
    - `next_deadline`: the seconds until the next deadline, negative if it is overdue.
    - `sealed`: the number of items that wait for slow handlers.
    - `unsent_age`: the age of the oldest unsent row.
    - `read_age`: the age of the newest record taken, by the record's own time; before the first one, the time since the
      process claimed the partition.
    - `origin_lag`: the age of the highest event time of an input partition that is re-keyed for windows.
    - `watermark_lag`: the age of the watermark, for an agent with windows that has read a time.
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
    watermark_lag: float | None = None
    origin_lag: float | None = None
    end: int = -1

    @property
    def lag(self) -> int | None:
        """The number of offsets between what was read and committed, and the end. None if either is unknown."""
        read = max(self.offset, self.end)
        return max(0, self.high - read) if self.high >= 0 and self.offset >= 0 else None

    @property
    def lag_seconds(self) -> float | None:
        """The distance of the reader from the end, in seconds. 0 at the end, None if it is unknown."""
        return 0.0 if self.lag == 0 else None if self.lag is None else self.read_age

    def later(self, seconds: float) -> Self:
        """The same partition `seconds` later without any work: ages grow, and the deadline comes closer."""
        ages = {name: age + seconds for name in AGES if (age := getattr(self, name)) is not None}
        due = None if self.next_deadline is None else self.next_deadline - seconds
        return msgspec.structs.replace(self, next_deadline=due, **ages)


class WorkerReport(msgspec.Struct, frozen=True):
    """One worker of one agent. `reasons` say why it is not ready. If it is ready, they say why it is degraded. `turned`
    is the time of the last turn of its loop. `level` is the durability of the store with its reasons, or None until it
    is known."""

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
