"""The reasons why a window is open, as values for operators and tests."""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from sluicegate.streams.aggregation.durable.entry import ADDED
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.merged import MergedClock
from sluicegate.streams.windows.tumbling import key_of


class Origin(NamedTuple):
    """An origin that holds the watermark back: the re-keying agent, its partition as TOPIC/NUMBER, its state, and the
    time of its last mark in milliseconds since 1970."""

    agent: str
    partition: str
    state: str
    marked_at: int


class After(NamedTuple):
    """A group whose window has closed. `results` is the number of its results; None: its result is an additional one of
    the window. `due` is the owner's time in seconds of the next result (infinity: no late record waits). `ends` is the
    watermark from which on it accepts no more records (infinity: it ends with its result)."""

    results: int | None
    due: float
    ends: float


class OpenWindow(NamedTuple):
    """`name` is the group's name in the changelog. `start`, `end`, `closes` and `watermark` are event times in
    milliseconds since 1970; the watermark is -1 before the first record. Event time closes the window when the
    watermark reaches `closes`. `silent` and `latest` are times of the owner's clock in seconds (infinity: never): the
    time at which silence closes the window if no more records come, and the latest time at which its group ends.
    `held_back_by` are the origins with the lowest time, if there are several. `after` is set if the window has closed.
    `together` are the names of all groups of the key, if an operator fires or drops them together."""

    name: bytes
    start: int
    end: int
    closes: int
    watermark: int
    silent: float
    latest: float
    held_back_by: tuple[Origin, ...] = ()
    after: After | None = None
    together: tuple[bytes, ...] = ()


def plain_key(groups: Groups, name: bytes) -> bytes:
    """The key of the group of this name."""
    return key_of(name) if isinstance(groups, WindowGroups) else name


def open_window(groups: Groups, name: bytes, state: GroupState) -> OpenWindow | None:
    """The window of a group; None without windows."""
    if not isinstance(groups, WindowGroups):
        return None
    window, span = groups.window, groups.span(name, state)
    waits = window.idle is not None and not window.windower.immediate
    silent = inf if not waits else (window.idle or 0.0) + max(groups.event.seen, span.closes / 1000)
    latest = inf if window.at_most is None else groups.since(state) + window.at_most
    origins = () if groups.merged is None else tuple(_origins(groups.merged))
    after = _after(groups, name)
    if after is not None:
        silent, latest = inf, after.due
    times = span.start, span.end, span.closes, groups.event.watermark
    return OpenWindow(name, *times, silent, latest, origins, after, groups.ending_with(name))


def _after(groups: WindowGroups, name: bytes) -> After | None:
    if name not in groups.closed:
        return None
    results, since = groups.closed[name]
    due = inf if since is None else since + groups.after.gather
    return After(None if results == ADDED else results, due, groups.after.end_of(name))


def _origins(clock: MergedClock) -> Iterator[Origin]:
    for name, (_, state, written) in clock.held_back_by().items():
        agent, _, partition = name.partition("/")
        yield Origin(agent, partition, state, written)
