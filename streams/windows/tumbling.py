"""Tumbling windows: which window holds a time, when it closes, and how groups of windows are named."""

from typing import NamedTuple

from sluicegate.streams.agent import Window

_NAME = 8  # bytes of the start before the key


class Span(NamedTuple):
    """A window in milliseconds since 1970. `closes` is the watermark that closes it."""

    start: int
    end: int
    closes: int


class Tumbling(NamedTuple):
    """All in milliseconds. A window is [start, start + size); it closes when the watermark is `grace` past its end."""

    size: int
    offset: int
    grace: int

    def start(self, time: int) -> int:
        """The start of the window that holds this time; negative for a window that began before 1970."""
        return time - (time - self.offset) % self.size

    def closes(self, start: int) -> int:
        """The watermark that closes the window."""
        return start + self.size + self.grace


def tumbling(window: Window) -> Tumbling:
    return Tumbling(*(round(1_000 * each) for each in (window.size, window.offset, window.grace)))


def name(start: int, key: bytes) -> bytes:
    """The name of a group: the start of its window, and its key."""
    return start.to_bytes(_NAME, "big", signed=True) + key


def start_of(name: bytes) -> int:
    return int.from_bytes(name[:_NAME], "big", signed=True)


def key_of(name: bytes) -> bytes:
    return name[_NAME:]
