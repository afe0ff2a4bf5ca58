"""A process of a simulation as the scheduler knows it, and its threads."""

from collections import deque
from typing import Any

from sluicegate.streams.calling.pool import Task

WAITS = (0, 0, 0, 1, 1, 2, 5)  # steps until a thread gets on with a call


class Threads:
    """What a process's threads would do, one job at a time, when the world says. Satisfies Pool; `inline` runs them at
    once."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._jobs: deque[tuple[int, Task]] = deque()
        self.inline = False

    def submit(self, job: Task) -> None:
        if self.inline:
            job()
        else:
            wait = 0 if self._world.calm else self._world.chance.choice(WAITS)
            self._jobs.append((self._world.number + wait, job))

    def turn(self, number: int) -> None:
        """Those whose time has come."""
        for job in [job for job in self._jobs if job[0] <= number]:
            if job in self._jobs:
                self._jobs.remove(job)
                job[1]()

    def finish(self) -> None:
        """All of them now, and from now on each at once."""
        self.inline = True
        self.turn(1 << 62)

    def free(self) -> int:
        return 1

    def wait(self, coroutine: Any) -> Any:
        raise NotImplementedError


class HandlerThreads(Threads):
    """The threads of slow handlers, `size` at once. Those of a process that is gone run no further."""

    waits = True

    def __init__(self, process: "Turned", size: int) -> None:
        super().__init__(process.world)
        self._process, self._size = process, size

    def turn(self, number: int) -> None:
        if self._process.alive:
            super().turn(number)

    def free(self) -> int:
        return self._size - len(self._jobs)


class Turned:
    """A process as the scheduler knows it. `away`: until that step no call to the store gets through; `late` and
    `twice`: so many steps later the bytes of its next call land, which says that its result is unknown, for the first
    or for the second time."""

    producer: Any

    def __init__(self, world: Any) -> None:
        self.world, self.name = world, world.token()
        self.alive, self.paused, self.doomed, self.locked = True, False, False, False
        self.away = self.late = self.twice = 0
        self.threads: list[Threads] = []

    @property
    def able(self) -> bool:
        return self.alive and not self.paused

    @property
    def marks_cleared(self) -> bool:
        """Has the store taken back all crash marks that it was asked to?"""
        return True

    def turn(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """As SIGTERM."""
        raise NotImplementedError

    def let_go(self) -> None:
        """What it does when an unexpected error ends it."""

    def again(self) -> "Turned":
        """The one that is started in its place."""
        raise NotImplementedError
