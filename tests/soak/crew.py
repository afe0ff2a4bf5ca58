"""Three workers of one file that somebody starts again whenever they end, as an orchestrator does."""

import os
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from tests.chaos.scene import Scene
from tests.chaos.worker import Worker
from tests.soak.plan import WORKERS

CLOCKS = Path(__file__).with_name("clock")


class Crew:
    """Each method may be called from any thread. `address(number)` are the store and the brokers of a worker. Each
    process of the first worker has the `failpoint`, if there is one."""

    def __init__(
        self,
        scene: Scene,
        address: Callable[[int], tuple[str, str]],
        without: str = "",
        failpoint: str = "",
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        self._scene, self._address, self._without, self._failpoint = scene, address, without, failpoint
        self._enter = enter
        # A child is killed when the thread ends that started it: one that stays starts them all.
        self._launcher = ThreadPoolExecutor(1, thread_name_prefix="crew")
        self._started = 0
        self.locks = [threading.RLock() for _ in range(WORKERS)]
        self.members: list[Worker] = []
        self.codes: Counter[int] = Counter()  # of workers that ended without being asked
        self.unclean: list[str] = []  # ends after SIGTERM that were not 0
        for number in range(WORKERS):
            self.clock(number, 0.0)
        self.members = [self._new(number) for number in range(WORKERS)]

    def clock(self, number: int, offset: float) -> None:
        """From now on the wall clock of this worker is off by so many seconds."""
        file = self._clock(number)
        if not file.exists():
            file.write_bytes(bytes(8))
        with open(file, "r+b") as clock:
            clock.write(struct.pack("d", offset))

    def restart(self, number: int) -> None:
        self.members[number] = self._new(number)

    def guest(self, agent: str) -> Worker:
        """One more worker, for a while, by the way of the first."""
        return self._new(0, agent)

    def keep(self) -> None:
        """Start those again that ended by themselves."""
        for number, lock in enumerate(self.locks):
            if lock.acquire(blocking=False):
                try:
                    code = self.members[number].process.poll()
                    if code is not None:
                        self.codes[code] += 1
                        self.restart(number)
                finally:
                    lock.release()

    def end(self, worker: Worker) -> int:
        """SIGTERM, and its exit code."""
        worker.terminate()
        code = worker.exit_code(90.0)
        if code != 0:
            self.unclean.append(f"{worker.name} ended with {code} after SIGTERM")
        return code

    def close(self) -> None:
        self._launcher.shutdown()

    def _new(self, number: int, agent: str = "") -> Worker:
        return self._launcher.submit(self._start, number, agent).result()

    def _start(self, number: int, agent: str) -> Worker:
        self._started += 1
        store, bootstrap = self._address(number)
        path = os.pathsep.join(filter(None, (str(CLOCKS), os.environ.get("PYTHONPATH"))))
        environ = {"SOAK_CLOCK": str(self._clock(number)), "PYTHONPATH": path}
        name = f"{'guest' if agent else f'worker-{number}'}-{self._started}"
        failpoint = self._failpoint if number == 0 and not agent else ""
        return self._scene.run(name, failpoint, self._without, agent, store, bootstrap, environ, self._enter)

    def _clock(self, number: int) -> Path:
        return self._scene.folder / f"clock-{number}"


def child(worker: Worker, agent: str) -> int | None:
    """The process that runs this agent and is at work, None while another one is starting."""
    ended = {line["pid"] for line in worker.events("worker.ended", agent=agent)}
    at_work = [int(line["pid"]) for line in worker.events("worker.running", agent=agent) if line["pid"] not in ended]
    return at_work[-1] if at_work else None


def complete(worker: Worker, agents: Iterable[str]) -> bool:
    """Are all these agents at work?"""
    return all(child(worker, agent) is not None for agent in agents)


def signalled(pid: int | None, number: int) -> bool:
    """Did the signal reach a process?"""
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
