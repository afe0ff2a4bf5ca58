"""Windows that follow from a time alone: which one holds it, when it closes, and how groups are named.

Tumbling windows are groups themselves. The groups of hopping windows are panes: the parts of `every` that windows have
in common.
"""

from dataclasses import dataclass
from struct import Struct

import msgspec

_START = Struct(">q")
NAMING = _START.size  # bytes of the name of a group before its key


class Span(msgspec.Struct, frozen=True, gc=False):
    """A window in milliseconds since 1970. `closes` is the watermark that closes it."""

    start: int
    end: int
    closes: int


@dataclass(slots=True)
class Tumbling:
    """All in milliseconds. A group holds the records of [start, start + every). It is a part of windows of `size`: the
    first one begins `size - every` before it, the last one with it. A window closes when the watermark is `grace` past
    its end. Of tumbling windows `every` is the size, and a group is one window."""

    every: int
    offset: int
    grace: int
    size: int

    def start(self, time: int) -> int:
        """The start of the group that holds this time; negative for a group that began before 1970."""
        return time - (time - self.offset) % self.every

    def next(self, start: int) -> int:
        """The start of the group behind the one that begins there."""
        return start + self.every

    def span(self, start: int) -> Span:
        """The last window with the group."""
        return Span(start, start + self.size, self.closes(start))

    def closes(self, start: int) -> int:
        """The watermark that closes the last window with the group: from it on its records are late."""
        return start + self.size + self.grace

    def first_closes(self, start: int) -> int:
        """The watermark that closes the first window with the group."""
        return start + self.every + self.grace


def name(start: int, key: bytes) -> bytes:
    """The name of a group: the start of its window, and its key."""
    return _START.pack(start) + key


def start_of(name: bytes) -> int:
    start: int = _START.unpack_from(name)[0]
    return start


def key_of(name: bytes) -> bytes:
    return name[NAMING:]
