"""Caches a value that takes time to read."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

SHARE = 0.005  # of the time is spent reading
LEAST = 2.0  # seconds from one reading to the next
AFTER_CHANGE = 4  # readings that follow a change within LEAST: its owner needs a few seconds to make it

T = TypeVar("T")


class KeptValue(Generic[T]):
    """`read` takes the value's place as often as SHARE permits, and never twice at the same time. The first question,
    and the one after `expire`, wait for it; the others get the value that is there, while another one is read in a
    thread. `clock` returns monotonic seconds."""

    def __init__(self, read: Callable[[], T], clock: Callable[[], float]) -> None:
        self._read, self._clock = read, clock
        self._reading = threading.Lock()
        self._found: tuple[T, float] | None = None
        self._due = 0.0
        self._expired = 0  # times
        self._soon = 0  # readings
        self._begun = 0  # readings

    def get(self) -> tuple[T, float]:
        """The value, and its age in seconds. Raises what `read` raises when there is no value."""
        value = self._found
        if value is None:
            value = self._first()
        elif self._clock() >= self._due and self._reading.acquire(blocking=False):
            threading.Thread(target=self._again, name="console", daemon=True).start()
        return value[0], max(0.0, self._clock() - value[1])

    def fresh(self) -> tuple[T, float]:
        """A value whose reading began after this question, and its age. Raises what `read` raises."""
        begun = self._begun
        with self._reading:
            value = self._found if self._begun > begun else None
            value = value or self._renewed()
        return value[0], max(0.0, self._clock() - value[1])

    def newest(self) -> tuple[T, float] | None:
        """The value that is there and its age, without waiting. Reads it in a thread when it is due."""
        if self._clock() >= self._due and self._reading.acquire(blocking=False):
            threading.Thread(target=self._again, name="console", daemon=True).start()
        value = self._found
        return None if value is None else (value[0], max(0.0, self._clock() - value[1]))

    def expire(self) -> None:
        """The next question reads the value again, and AFTER_CHANGE readings may take more than their share of the
        time. One that is being read now is not kept."""
        self._expired += 1
        self._soon = AFTER_CHANGE
        self._found = None

    def _first(self) -> tuple[T, float]:
        with self._reading:
            return self._found or self._renewed()

    def _again(self) -> None:
        try:
            self._renewed()
        except Exception as error:
            structlog.get_logger().warning("console.stale", error=str(error))
        finally:
            self._reading.release()

    def _renewed(self) -> tuple[T, float]:
        began, expired = self._clock(), self._expired
        self._begun += 1
        try:
            value = self._read(), self._clock()
        finally:
            pause = LEAST if self._soon else max(LEAST, (self._clock() - began) / SHARE)
            self._soon, self._due = max(0, self._soon - 1), self._clock() + pause
        if expired == self._expired:
            self._found = value
        return value
