"""Caches a value that takes time to read."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

import structlog

SHARE = 0.005  # the part of the time that is spent reading
LEAST = 2.0  # seconds from one reading to the next
AFTER_CHANGE = 4  # extra readings within LEAST after a change: the owner needs a few seconds for it
AFTER_LONG = 1  # the same if a reading takes LEAST or longer

T = TypeVar("T")


class KeptValue(Generic[T]):
    """A cached value. `read` renews it as often as SHARE permits, and never twice at the same time. The first caller,
    and the first one after `expire`, wait for it. Other callers get the cached value, while a thread reads a new one.
    `clock` returns monotonic seconds."""

    def __init__(self, read: Callable[[], T], clock: Callable[[], float]) -> None:
        self._read, self._clock = read, clock
        self._reading = threading.Lock()
        self._found: tuple[T, float] | None = None
        self._due = 0.0
        self._expired = 0  # the number of calls of `expire`
        self._soon = 0  # the number of extra readings
        self._begun = 0  # the number of readings that began
        self._took = 0.0  # seconds of the last reading
        self._awaited: Future[tuple[T, float]] | None = None  # the first reading, while callers wait for it

    def get(self) -> tuple[T, float]:
        """The value, and its age in seconds. Raises the error of `read` if there is no value."""
        value = self._found
        if value is None:
            value = self._first()
        elif self._clock() >= self._due and self._reading.acquire(blocking=False):
            threading.Thread(target=self._again, name="console", daemon=True).start()
        return value[0], max(0.0, self._clock() - value[1])

    def fresh(self) -> tuple[T, float]:
        """A value whose reading began after this call, and its age. Raises the errors of `read`."""
        begun = self._begun
        with self._reading:
            value = self._found if self._begun > begun else None
            value = value or self._renewed()
        return value[0], max(0.0, self._clock() - value[1])

    def newest(self) -> tuple[T, float] | None:
        """The cached value and its age, without waiting. Starts a reading in a thread if one is due."""
        if self._clock() >= self._due and self._reading.acquire(blocking=False):
            threading.Thread(target=self._again, name="console", daemon=True).start()
        value = self._found
        return None if value is None else (value[0], max(0.0, self._clock() - value[1]))

    def within(self, seconds: float) -> tuple[T, float] | None:
        """Same as `get`; None if there is no value after so many seconds. The reading goes on."""
        if self._found is None:
            awaited = self._awaited
            if awaited is None:
                awaited = self._awaited = Future()
                threading.Thread(target=self._await, args=(awaited,), name="console", daemon=True).start()
            try:
                awaited.result(seconds)
            except TimeoutError:
                if not awaited.done():
                    return None
                raise
        return self.get()

    def _await(self, awaited: "Future[tuple[T, float]]") -> None:
        try:
            awaited.set_result(self._first())
        except Exception as error:
            awaited.set_exception(error)
        finally:
            self._awaited = None

    def renew(self) -> None:
        """Let the next caller start a reading in a thread, as if one were due."""
        self._due = self._clock()

    def expire(self) -> None:
        """Let the next caller read the value again, and let AFTER_CHANGE readings exceed their share of the time. The
        result of a reading that is in progress is dropped. A value that takes LEAST or longer to read is kept until it
        is read again."""
        self._expired += 1
        if self._took < LEAST:
            self._soon, self._found = AFTER_CHANGE, None
        else:
            self._soon = AFTER_LONG
            self.renew()

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
            self._took = self._clock() - began
            pause = LEAST if self._soon else max(LEAST, self._took / SHARE)
            self._soon, self._due = max(0, self._soon - 1), self._clock() + pause
        if expired == self._expired:
            self._found = value
        return value
