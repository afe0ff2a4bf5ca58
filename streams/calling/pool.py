"""The threads in which slow handlers run, outside of the loop, with one event loop for all coroutines."""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Task = Callable[[], None]


class Pool(Protocol):
    """Runs jobs. A job never raises."""

    waits: bool
    """Whether a job may wait while the loop continues."""

    def submit(self, job: Task) -> None: ...

    def free(self) -> int:
        """The number of further jobs that could start now."""

    def wait(self, coroutine: Awaitable[Any]) -> Any:
        """The result of a coroutine. Call it from inside a job."""


class InlinePool:
    """Runs a job at once in the caller's thread, for handlers inside the commit and for tests. Satisfies Pool."""

    waits = False

    def __init__(self, size: int) -> None:
        self._size = size
        self._runner: asyncio.Runner | None = None

    def submit(self, job: Task) -> None:
        job()

    def free(self) -> int:
        return self._size

    def wait(self, coroutine: Any) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine)


class Threads:
    """`size` daemon threads. A thread that hangs does not keep the process from ending. Satisfies Pool."""

    waits = True

    def __init__(self, size: int) -> None:
        self._size, self._busy, self._lock = size, 0, threading.Lock()
        self._jobs: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        for number in range(size):
            threading.Thread(target=self._work, name=f"handler-{number}", daemon=True).start()

    def submit(self, job: Task) -> None:
        with self._lock:
            self._busy += 1
        self._jobs.put(job)

    def free(self) -> int:
        return self._size - self._busy

    def wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop_of_all()).result()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job()
            finally:
                with self._lock:
                    self._busy -= 1

    def _loop_of_all(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="handlers-loop", daemon=True).start()
            return self._loop
