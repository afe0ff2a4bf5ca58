"""The tests of a file as frozen values: records to send, steps of the clock, and expected outputs. `line` is the
line of the step in the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ANYTHING = object()
"""Matches any value."""
PARTITIONS = 4
"""The number of partitions of each topic in a test."""


@dataclass(frozen=True, slots=True)
class SendCase:
    """A record to send. Its timestamp is `at`, in seconds since 1970, or `after` seconds since the start of the test;
    without both it is the time of the test's clock."""

    line: int
    topic: str
    key: str | None
    value: object
    headers: Mapping[str, str] = field(default_factory=dict)
    partition: int | None = None
    times: int = 1
    at: float | None = None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Expect:
    """An expected output. `key` None matches any key. A mapping `value` matches if the named fields are equal. `reason`
    is the reason of a dead letter or a result."""

    line: int
    topic: str
    key: str | None = None
    value: object = ANYTHING
    reason: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExpectNothing:
    """The topic has no output that no earlier `expect` matched."""

    line: int
    topic: str


@dataclass(frozen=True, slots=True)
class AdvanceStep:
    line: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SetupFile:
    """An SQL file that creates the tables of the test. The path starts at the folder of the app's file."""

    line: int
    file: str


@dataclass(frozen=True, slots=True)
class ReplaceHandlers:
    """From here on, other functions replace the handlers of these agents."""

    line: int
    functions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PutRow:
    """A row that lookups find from now on. `source` is the table, the collection or the hash of the lookup. A `value`
    of None deletes the row."""

    line: int
    source: str
    key: str | int
    value: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class ExpectRows:
    """The expected rows of a query, in this order. In each row only the named columns must be equal."""

    line: int
    sql: str
    rows: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class DeployStep:
    """The rules of another file are deployed. `policy` is the policy for open groups; None: the choice of `deploy`. The
    path starts at the folder of the app's file."""

    line: int
    file: str
    policy: str | None = None


CaseStep = (
    SetupFile | ReplaceHandlers | PutRow | DeployStep | ExpectRows | SendCase | Expect | ExpectNothing | AdvanceStep
)


@dataclass(frozen=True, slots=True)
class Case:
    """One test of the file."""

    name: str
    line: int
    steps: tuple[CaseStep, ...]
