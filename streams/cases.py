"""The tests that a file holds, as plain values: what is fed, how the clock moves, what must come out. `line` is the
step's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ANYTHING = object()
"""An expected value that may be anything."""
PARTITIONS = 4
"""Of every topic in such a test."""


@dataclass(frozen=True, slots=True)
class SendCase:
    line: int
    topic: str
    key: str | None
    value: object
    headers: Mapping[str, str] = field(default_factory=dict)
    partition: int | None = None
    times: int = 1


@dataclass(frozen=True, slots=True)
class Expect:
    """`key` None: any. Of a mapping `value` only the fields named must be equal; `reason` is that of a dead letter or a
    result."""

    line: int
    topic: str
    key: str | None = None
    value: object = ANYTHING
    reason: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExpectNothing:
    """No output on the topic that no earlier `expect` took."""

    line: int
    topic: str


@dataclass(frozen=True, slots=True)
class AdvanceStep:
    line: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SetupFile:
    """A file of SQL that makes the tables of the test, relative to the folder of the app's file."""

    line: int
    file: str


@dataclass(frozen=True, slots=True)
class ExpectRows:
    """What a query finds, in this order; of each row only the columns named must be equal."""

    line: int
    sql: str
    rows: tuple[Mapping[str, object], ...]


CaseStep = SetupFile | ExpectRows | SendCase | Expect | ExpectNothing | AdvanceStep


@dataclass(frozen=True, slots=True)
class Case:
    """One test of the file."""

    name: str
    line: int
    steps: tuple[CaseStep, ...]
