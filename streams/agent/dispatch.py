"""What the dispatcher of the outbox sends: rows, due timeouts and recurring messages."""

from dataclasses import dataclass
from typing import Annotated, Literal

from sluicegate.streams.keys import FileKey


@dataclass(frozen=True, slots=True)
class Threshold:
    """Exceeded when the oldest pending row is `age` seconds old, or when `dead` rows are dead."""

    age: float
    dead: int


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class OutboxSettings:
    """Keys of `outbox`."""

    lanes: Annotated[
        int | None,
        FileKey(
            "The number of lanes that rows are spread over. Unless it is written, the number that the store has "
            "(16 in a new one).",
            16,
            most=1024,
        ),
    ] = None
    order: Annotated[
        Literal["key", "none"],
        FileKey("`key` sends the rows of a key in the order of their commits; `none` promises no order.", "key"),
    ] = "key"
    attempts: Annotated[int, FileKey("How often a row is sent before it is dead, with the first attempt.", 10)] = 10
    retention: Annotated[float, FileKey("How long rows that were sent are kept.", "1h", after="backoff")] = 3600.0
    poll: Annotated[float, FileKey("How often an idle dispatcher looks for rows.", "1s")] = 1.0
    lease: Annotated[float, FileKey("How long a dispatcher owns a lane without renewing it.", "30s")] = 30.0


@dataclass(frozen=True, slots=True)
class Outbox(OutboxSettings):
    """Settings of the dispatcher, which sends the rows that applications and the leased contracts write. Between the
    attempts to send a row is a back-off. At the threshold `degraded`, health reports it; at `unhealthy`, the worker is
    not ready."""

    backoff_first: float = 1.0
    backoff_most: float = 60.0
    degraded: Threshold = Threshold(60.0, 1)
    unhealthy: Threshold = Threshold(600.0, 1000)


@dataclass(frozen=True)
class Timeouts:
    """Settings for due timeouts: a batch of them is locked and sent."""

    lease: Annotated[
        float,
        FileKey("How long a dispatcher may take to send a batch of due timeouts before another takes them.", "5m"),
    ] = 300.0
    batch: Annotated[int, FileKey("The most timeouts in a batch.", 500, most=10_000)] = 500
    poll: Annotated[float, FileKey("How often an idle dispatcher looks for due timeouts.", "1s")] = 1.0


@dataclass(frozen=True, slots=True)
class RecurringMessage:
    """A message that is sent to `topic` at each time of `every` (sluicegate.streams.contracts.recurring). `value` is
    JSON text."""

    name: str
    every: str
    topic: str
    value: str = "{}"
    key: str | None = None
