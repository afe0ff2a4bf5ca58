"""Windows that a time alone determines: which window contains it, when it closes, and how groups are named.

The groups of tumbling windows are whole windows. The groups of hopping windows are panes: intervals of `every` that
several windows share.
"""

from dataclasses import dataclass, field
from math import inf
from struct import Struct
from typing import NamedTuple

import msgspec

_START = Struct(">q")
NAMING = _START.size  # the bytes of a group's name that precede its key


class Span(msgspec.Struct, frozen=True, gc=False):
    """A window in milliseconds since 1970. `closes` is the watermark that closes it."""

    start: int
    end: int
    closes: int


class Starts(NamedTuple):
    """The first and the last start of the windows of a rule, in milliseconds since 1970. If windows overlap and the
    rule changes, earlier or later windows belong to another rule."""

    first: float = -inf
    last: float = inf


@dataclass(slots=True)
class Tumbling:
    """All values are in milliseconds. A group has the records in [start, start + every). It is part of windows of
    `size`: the first one begins `size - every` before it, the last one begins with it. A window closes when the
    watermark is `grace` past its end. For tumbling windows `every` is the size, and a group is one window. `starts` are
    those of the windows of this rule, if windows overlap."""

    every: int
    offset: int
    grace: int
    size: int
    starts: Starts = field(default=Starts(), kw_only=True)

    def start(self, time: int) -> int:
        """The start of the group that contains this time. It is negative for a group that began before 1970."""
        return time - (time - self.offset) % self.every

    def next(self, start: int) -> int:
        """The start of the next group."""
        return start + self.every

    def span(self, start: int) -> Span:
        """The last window that contains the group."""
        return Span(start, start + self.size, self.closes(start))

    def closes(self, start: int) -> int:
        """The watermark that closes the last window that contains the group. From it on, the records of the group are
        late."""
        return start + self.size + self.grace

    def first_closes(self, start: int) -> int:
        """The watermark that closes the first window that contains the group."""
        return start + self.every + self.grace


def name(start: int, key: bytes) -> bytes:
    """The name of a group: the start of its window, and its key."""
    return _START.pack(start) + key


def start_of(name: bytes) -> int:
    start: int = _START.unpack_from(name)[0]
    return start


def key_of(name: bytes) -> bytes:
    return name[NAMING:]
