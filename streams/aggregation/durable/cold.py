"""The cold groups of a kind: how their rows are keyed, when they are due, and which groups may be evicted.

Each kind of groups names its class. The rooms that write, read and list rows ask it, and do not ask for the kind
(paging.py).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple, Protocol

from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import COLD_KEY, ColdGroup

EVER = 1e18
CLOSED_PARTS = 2  # of a ClosedState (entry.py). Early results with the time of an alarm have more


class RowReads(Protocol):
    """Reads the rows of a partition. `gone` are the keys of rows that the next commit deletes. `most` is the number of
    rows that one expiry reads."""

    @property
    def gone(self) -> Collection[bytes]: ...
    @property
    def most(self) -> int: ...

    def rows(self, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        """The rows with these keys."""

    def due(self, until: float, limit: int) -> Sequence[ColdGroup]:
        """The rows with the nearest deadlines up to `until`."""

    def before(self, key: bytes, limit: int) -> Sequence[ColdGroup]:
        """The first rows in the order of their keys, of those before this key."""

    def page(self, limit: int, after: bytes | None = None) -> Sequence[ColdGroup]:
        """The first rows in the order of their keys, of those behind this key."""


def row_width(groups: Any) -> int:
    """The length of the state and the items of a group in a row."""
    width: int = groups.width + bool(groups.rule.plan.bags)
    return width


def is_closed(contents: GroupState, width: int) -> bool:
    """Whether these contents of a row are a group whose window has closed. `width` is as in `row_width`."""
    return len(contents) == width + 1 and isinstance(contents[-1], list) and len(contents[-1]) == CLOSED_PARTS


class DueRows(NamedTuple):
    """Cold groups that are due on the owner's clock. `passed` are the rows whose deadlines passed: the next commit
    deletes them. `nearest` is the next deadline; infinity for none. `by_due`: no row stays that comes before the
    last of these in the order of deadlines."""

    rows: Sequence[ColdGroup]
    passed: Sequence[ColdGroup]
    nearest: float
    by_due: bool = False


class ColdKeys:
    """The cold groups of one partition. This class is for groups without windows: the key of a row is the name of its
    group, and its deadline is a time of the owner's clock. A row stays when its group becomes hot.

    `count` is the number of cold groups. `absent` are the keys of rows without a cold group, of those for which the
    store was asked; None: the store has no cold groups at all. `starts` is the number of cold groups by the start of
    their window, the earliest start first; empty without windows.
    """

    __slots__ = ("absent", "count", "groups", "starts")
    times_out = True
    """Whether a group ends when the deadline of its row has passed, unless that is the one of an early result. Then the
    rows of `due` are those whose deadlines passed."""

    def __init__(self, groups: Any) -> None:
        self.groups = groups
        self.absent: set[bytes] | None = None
        self.count = 0
        self.starts: dict[int, int] = {}

    def restore(self, count: int, starts: dict[int, int]) -> None:
        self.count, self.starts = count, dict(sorted(starts.items()))

    def add(self, starts: Iterable[int | None]) -> None:
        """Groups of windows with these starts became cold."""
        for start in starts:
            self.count += 1
            if start in self.starts:
                self.starts[start] += 1
            elif start is not None:
                self.starts = dict(sorted({**self.starts, start: 1}.items()))

    def remove(self, starts: Iterable[int | None]) -> None:
        """Cold groups of windows with these starts became hot, or were removed."""
        for start in starts:
            self.count -= 1
            if start in self.starts:
                self.starts[start] -= 1
                if not self.starts[start]:
                    del self.starts[start]

    # -- keys

    def may_evict(self, name: bytes) -> bool:
        """Whether this open group may become cold."""
        return len(name) <= COLD_KEY

    def row_key(self, name: bytes) -> bytes:
        """The key of the row of this open group, if it becomes cold."""
        return name

    def members(self, name: bytes) -> Sequence[bytes]:
        """The open groups that are in one row with this open group, and with it."""
        return (name,)

    def joined(self, states: Sequence[tuple[bytes, GroupState]]) -> GroupState:
        """The contents of the row of these groups, each with its name."""
        [(_, state)] = states
        return state

    def groups_in(self, row: bytes, contents: GroupState) -> Sequence[tuple[bytes, GroupState]]:
        """The groups in the row of this key, each with its name: the reverse of `joined`."""
        return ((row, contents),)

    def starts_in(self, row: bytes, contents: GroupState) -> Sequence[int | None]:
        """The starts of the windows of the groups in the row of this key, in milliseconds since 1970; None without
        windows."""
        return (None,)

    def rows_of(self, name: bytes) -> Sequence[bytes]:
        """The keys that the row of the group of this name may have."""
        return (name,)

    def of_key(self, key: bytes) -> Sequence[bytes]:
        """The keys that the rows of the cold groups of a key may have."""
        return (key,)

    def of_record(self, record: Record, key: bytes, read: Any) -> Sequence[bytes]:
        """The keys of the rows of the groups that this record may open or change. `read` is the record as the rule
        reads it. Raises NoTime."""
        return (key,)

    def begin(self) -> None:
        """A batch begins: `of_record` or `pass_over` follows for each of its records, in order."""

    def pass_over(self, record: Record) -> None:
        """This record has no key, or cannot be read, so it is in no group."""

    def to_ask(self, rows: Sequence[bytes]) -> Sequence[bytes]:
        """The keys of rows among these for which the store must be asked. Call `answered` when their groups are hot."""
        self.absent = set()
        return rows

    def answered(self, rows: Sequence[bytes]) -> None:
        if self.absent is not None:
            self.absent.update(rows)

    def unasked(self, name: bytes) -> bool:
        """Whether a new group of this name may have a row that was not asked for."""
        return self.absent is not None and name not in self.absent and name not in self.groups.touched

    def is_cold(self, row: bytes, gone: Collection[bytes]) -> bool:
        """Whether the row of this key has a cold group. Other rows are alarms, or older than their groups. `gone` are
        the keys of rows that the next commit deletes."""
        return row not in self.groups.touched and row not in self.groups.states

    def replaced(self, row: bytes, names: Sequence[bytes], rings: float | None) -> Sequence[bytes]:
        """The keys of the rows that are deleted when the groups of this row become hot; empty: it stays. `rings` is the
        time of its alarm, if the row has it."""
        return ()

    def removed(self, name: bytes) -> Sequence[bytes]:
        """The keys of all rows of this group, if it is cold."""
        return (name,)

    def left(self, name: bytes) -> Sequence[bytes]:
        """The keys of the rows that this hot group may have left in the store."""
        return (name,)

    # -- deadlines

    def row_due(self, name: bytes) -> float:
        """The deadline of the row of this open group; infinity for none."""
        due: float = self.groups.due_at(name)
        return due

    def alarms(self, name: bytes) -> Sequence[ColdGroup]:
        """The rows that are written beside the row of this open group, for its other deadlines."""
        return ()

    def rings(self, name: bytes) -> float | None:
        """The time of the alarm of this open group, for its row. None: it follows from the state."""
        return None

    def nearest(self, evicted: Sequence[ColdGroup]) -> float:
        """The nearest deadline of these new rows on the owner's clock; infinity for none."""
        return min((row.due for row in evicted if row.due is not None), default=inf)

    def due(self, reads: RowReads, now: float) -> DueRows:
        """Read the groups whose deadline on the owner's clock is `now` or before."""
        rows = reads.due(EVER, reads.most + 1)
        late = [row for row in rows[: reads.most] if (row.due or 0.0) <= now]
        return DueRows(late, late, (rows[len(late)].due or 0.0) if len(late) < len(rows) else inf, by_due=True)

    @property
    def ends(self) -> tuple[float, ...]:
        """The settings from which the deadlines of rows are computed, beside those of all groups."""
        return ()

    # -- closes: the watermark passes the ends of windows

    def closing(self) -> bool:
        """Whether the watermark has closed windows with cold groups."""
        return False

    def close(self, reads: RowReads) -> Iterator[Sequence[ColdGroup]]:
        """Read a slice of the cold groups whose windows are closed, the earliest close first. The caller makes them hot
        before it goes on. Raises ChangelogIncomplete."""
        yield from ()

    def next_close(self) -> float:
        """No cold group closes at an earlier watermark than this one; infinity if none is cold."""
        return inf

    def closes_by(self, watermark: float) -> Iterable[int]:
        """The closes, up to this watermark, of the windows with cold groups."""
        return ()

    def leaving(self, watermark: float) -> int:
        """The number of cold groups that this watermark surely closes."""
        return 0

    def waiting(self) -> int:
        """The number of cold groups whose windows the watermark has closed. They take up no room."""
        return self.leaving(self.groups.event.watermark) if self.starts else 0

    # -- room

    def needs(self, records: int, unknown: int) -> int:
        """The most groups that must fire if the partition is full, for a number of records and of keys that are not
        hot."""
        return unknown if self.groups.rule.aggregation.on_full == "fire-oldest" else 0

    def first(self, reads: RowReads) -> Iterator[Callable[[int], Sequence[ColdGroup]]]:
        """The reads that find the groups that fire first: those with the nearest deadlines, then those without."""
        yield partial(reads.due, EVER)
        yield reads.page
