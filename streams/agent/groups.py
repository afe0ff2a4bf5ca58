"""An aggregation: what completes a group, and the fields of its result."""

from dataclasses import dataclass
from typing import Annotated, Literal

from sluicegate.streams.agent.windows import Correlation, Window
from sluicegate.streams.keys import END, OUTPUT, FileKey

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Until:
    """A group is complete with the record whose `field` equals `equals` (same JSON type and value)."""

    field: str
    equals: Scalar


@dataclass(frozen=True, slots=True)
class DataDeadline:
    """The deadline of a group that its records contain, by expressions on the record. One of `at` and `after` is set.

    `at` gives an instant. `after` gives the time since the first record of the group, or, with `since` last, since the
    record that gives it. A number is in `unit`; an instant counts from 1970. The last record that gives a deadline
    wins. A record for which the expression is null gives none. A record for which `cancel` is true removes the
    deadline.
    """

    at: str = ""
    after: str = ""
    since: Literal["first", "last"] = "first"
    unit: Literal["s", "ms", "us", "rfc3339"] = "rfc3339"
    cancel: str = ""

    @property
    def name(self) -> str:
        """The key of the file with the expression."""
        return "at" if self.at else "after"

    @property
    def begin(self) -> Literal["epoch", "first", "last"]:
        """Where the time of `after` begins; `epoch` for an instant, which counts from 1970."""
        return "epoch" if self.at else self.since


@dataclass(frozen=True, slots=True)
class Reducer:
    """One computed field of the result.

    `kind` is the name of an entry in streams/reducers.py. `field` is a path (`a.b`). It is None for count, for reduce,
    and for a collect of whole messages. `function` is the `module:function` of reduce: `(accumulator or None, message)
    -> accumulator`. It must be pure, because it may be called more than once for a record. `option` is the number that
    a few reducers need beside the field.
    """

    name: str
    kind: str
    field: str | None = None
    function: str | None = None
    option: float | None = None

    @property
    def argument(self) -> str | None:
        """The field, function or messages from which it is computed."""
        return self.field if self.function is None else self.function


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class GroupSettings:
    """Keys of `aggregate`."""

    count: Annotated[int | None, FileKey("The number of records that completes a group.", 100, END)] = None
    on_timeout: Annotated[
        Literal["fire", "discard", "dead-letter"],
        FileKey(
            "What happens to a group when its timeout has passed. With `discard` and `dead-letter` it has no result, "
            "and no handler gets it.",
            "discard",
            END,
            after="compute",
        ),
    ] = "fire"
    on_missing: Annotated[
        Literal["dead-letter", "skip", "ignore"],
        FileKey("What happens to a record without a field that the group needs.", "skip", END),
    ] = "dead-letter"
    on_null: Annotated[
        Literal["dead-letter", "skip"], FileKey("What happens to a record without a value.", "skip", END)
    ] = "dead-letter"
    on_full: Annotated[
        Literal["fire-oldest", "dead-letter", "stop"],
        FileKey(
            "What happens when the groups of a partition have reached `max_groups` or `max_buffered_bytes`.",
            "stop",
            END,
        ),
    ] = "fire-oldest"
    max_bytes: Annotated[int, FileKey("The largest group.", "900kB", END, "size", after="max_items")] = 900_000
    max_groups: Annotated[int, FileKey("The most open groups of a partition.", 1_000_000, END)] = 1_000_000
    hot_groups: Annotated[
        int,
        FileKey(
            "The most open groups of a partition in memory. Beyond it, the least recently used are rows of the store.",
            50_000,
        ),
    ] = 1_000_000
    max_buffered_bytes: Annotated[
        int, FileKey("The most bytes that open groups of a partition keep in memory.", "512MiB", END, "size")
    ] = 512 * 1024 * 1024


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class EmitSettings:
    """Keys of `emit`."""

    every: Annotated[
        float | None,
        FileKey("The time from a record to an early result that has it, by the worker's clock.", "10s", OUTPUT),
    ] = None
    count: Annotated[
        int | None, FileKey("An early result each time the group has this many more records.", 100, OUTPUT)
    ] = None
    on: Annotated[
        Literal["", "change"],
        FileKey("With `change`, an early result behind each record that changes a computed field.", "change", OUTPUT),
    ] = ""
    final: Annotated[
        bool,
        FileKey(
            "Whether a group that ends has a result if all of its records are in an early one already.", False, OUTPUT
        ),
    ] = True


@dataclass(frozen=True, slots=True)
class Emit(EmitSettings):
    """Groups have results before they end. One of `every`, `count` and `on` sets the time of the early results."""


@dataclass(frozen=True, slots=True)
class Aggregation(GroupSettings):
    """The conditions that complete a group, and the fields of its result. At one record, count precedes until, and
    until precedes timeout.

    `key` is a field path; None means the message key. `until` is a field's value, or an expression. `since_first` and
    `since_last` are timeouts in seconds; both may be set, and `deadline` beside them: the nearest one counts.
    `max_items` and `max_bytes` limit one group; the bytes are the size of the collected values.

    The records of a `table` are changes of its rows: a change subtracts one row and adds another. A group is complete
    when it has no rows left.
    """

    key: str | None = None
    since_first: float | None = None
    since_last: float | None = None
    deadline: DataDeadline | None = None
    until: Until | str | None = None
    compute: tuple[Reducer, ...] = ()
    max_items: int = 100_000
    window: Window | None = None
    correlation: Correlation | None = None
    emit: Emit | None = None
    table: bool = False

    @property
    def timed(self) -> bool:
        """Whether groups may time out by the owner's clock."""
        return any(end is not None for end in (self.since_first, self.since_last, self.deadline))
