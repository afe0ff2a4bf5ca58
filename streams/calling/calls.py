"""Calls to a store in threads. The loop handles their results."""

import queue
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.errors import NotAuthenticated, SluicegateError

T = TypeVar("T")
LAST = (
    5.0  # seconds to wait for each running call at the end: MongoDB keeps the locks of an interrupted call for a minute
)
OnFailure = Callable[[SluicegateError], object]


class BackgroundCalls:
    """The loop calls `begin` and `turn`. `turn` runs the callbacks of finished calls. `wake` interrupts the loop's
    wait. It is thread-safe."""

    def __init__(self, pool: Pool, wake: Callable[[], object]) -> None:
        self._pool, self._wake = pool, wake
        self._ended: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.running = 0

    def begin(self, call: Callable[[], T], then: Callable[[T], object], failed: OnFailure) -> None:
        """Begin a call. `then` receives the result, `failed` an error of Sluicegate. Any other error, and
        NotAuthenticated, ends the loop."""
        self.running += 1
        self._pool.submit(partial(self._make, call, then, failed))

    def turn(self) -> int:
        """Run the callbacks of finished calls. Returns their number."""
        ended = 0
        while True:
            try:
                follow = self._ended.get_nowait()
            except queue.Empty:
                return ended
            self.running -= 1
            ended += 1
            follow()

    def finish(self) -> None:
        """Wait for the running calls, at most LAST seconds for each. Their callbacks do not run."""
        while self.running:
            try:
                self._ended.get(timeout=LAST)
            except queue.Empty:
                return
            self.running -= 1

    def _make(self, call: Callable[[], T], then: Callable[[T], object], failed: OnFailure) -> None:
        follow: Callable[[], object]
        try:
            follow = partial(then, call())
        except NotAuthenticated as error:
            follow = partial(_raise, error)
        except SluicegateError as error:
            follow = partial(failed, error)
        except BaseException as error:
            follow = partial(_raise, error)
        self._ended.put(follow)
        self._wake()


def _raise(error: BaseException) -> None:
    raise error
