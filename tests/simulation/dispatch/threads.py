"""Threads that get on when the scheduler says."""

from collections import deque
from typing import Any

from streams.engine.pool import Job

WAITS = (0, 0, 0, 1, 1, 2, 5)  # steps until a thread gets on with a call


class Threads:
    """What a process's threads would do, one job at a time, when the world says. Satisfies Pool; `inline` runs them at once."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._jobs: deque[tuple[int, Job]] = deque()
        self.inline = False

    def submit(self, job: Job) -> None:
        if self.inline:
            job()
        else:
            wait = 0 if self._world.calm else self._world.chance.choice(WAITS)
            self._jobs.append((self._world.number + wait, job))

    def turn(self, number: int) -> None:
        """Those whose time has come."""
        for each in [each for each in self._jobs if each[0] <= number]:
            if each in self._jobs:
                self._jobs.remove(each)
                each[1]()

    def free(self) -> int:
        return 1

    def wait(self, coroutine: Any) -> Any:
        raise NotImplementedError
