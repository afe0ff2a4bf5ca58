"""Calls to a store beside the loop: a few threads make them, the loop hears what came of them."""

import queue
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sluicegate.streams.calling.pool import Pool
from sluicegate.streams.errors import NotAuthenticated, SluicegateError

T = TypeVar("T")
# seconds for each call under way when an error ends us: cut off in the middle, MongoDB would keep its locks for a
# minute
LAST = 5.0
OnFailure = Callable[[SluicegateError], object]


class BackgroundCalls:
    """`begin` from the loop; what follows a call runs in the loop's `turn`. `wake` ends the loop's rest, from any
    thread."""

    def __init__(self, pool: Pool, wake: Callable[[], object]) -> None:
        self._pool, self._wake = pool, wake
        self._ended: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.running = 0

    def begin(self, call: Callable[[], T], then: Callable[[T], object], failed: OnFailure) -> None:
        """`then` gets the result, `failed` one of our errors; any other ends the loop, and so does NotAuthenticated."""
        self.running += 1
        self._pool.submit(partial(self._make, call, then, failed))

    def turn(self) -> int:
        """Let follow what follows from the calls that ended; returns how many."""
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
        """Wait for the calls under way, each at most LAST seconds; nothing follows from them."""
        while self.running:
            try:
                self._ended.get(timeout=LAST)
            except queue.Empty:
                return
            self.running -= 1

    def _make(self, call: Callable[[], T], then: Callable[[T], object], failed: OnFailure) -> None:
        try:
            follow = self._made(call, then, failed)
        except BaseException as error:
            follow = partial(_raise, error)
        self._ended.put(follow)
        self._wake()

    def _made(self, call: Callable[[], T], then: Callable[[T], object], failed: OnFailure) -> Callable[[], object]:
        try:
            return partial(then, call())
        except NotAuthenticated:
            raise
        except SluicegateError as error:
            return partial(failed, error)


def _raise(error: BaseException) -> None:
    raise error
