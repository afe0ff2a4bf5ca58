"""The scheduler of the simulated worlds: processes turned one at a time, faults that come true where they are armed,
and processes that stand still in the middle of something, from where the others are turned."""

import hashlib
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from sluicegate.streams import failpoints
from sluicegate.streams.errors import PersistenceError, SluicegateError
from sluicegate.streams.failpoints import Failpoint
from sluicegate.streams.testing.deaths import Death
from sluicegate.streams.testing.log import Log, ManualClock
from tests.simulation.plan import Fault

DEEPEST = 3  # processes that stand still in the middle of something, at most
TIMES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.3)  # seconds between two steps
BACK_AFTER = 4  # steps until a process that ended is there again

Action = Callable[[Any, Fault, Any], bool]
"""What a fault does to the world or a process when its step has come; is it to be noted now?"""


class Scheduler:
    """`number` is the step; `hits` counts the faults that came true, `overlaps` the claims of what another living
    process held. Which faults there are, what comes by itself and what the end of a process means to others is the
    world's."""

    actions: Mapping[str, Action]

    def __init__(self, plan: Any, keep_trace: bool = False) -> None:
        self.plan, self.chance = plan, Random(f"run {plan.seed}")
        self.clock, self.skew, self.skews = ManualClock(), 0.0, [(0.0, 0.0)]
        self.log = Log()
        self.number = self._tokens = self._depth = self.overlaps = 0
        self.hits: Counter[str] = Counter()
        self.met: Counter[tuple[str, str]] = Counter()  # faults by the state that they met, or by their place
        self.findings: list[str] = []
        self.calls: list[tuple[int, str, Callable[[], Any]]] = []  # late ones: step, name, and what they do
        self.armed: dict[str, list[Fault]] = {}
        self.refused: set[str] = set()  # ids of rows that the broker never takes
        self.offered: set[str] = set()  # ids of rows that producers were handed
        self.passed: set[str] = set()  # ids of rows that failed alone: later ones came before them
        self.calm = False
        self._digest, self.trace = hashlib.sha256(), [] if keep_trace else None  # type: ignore[var-annotated]
        self.back: list[tuple[int, Callable[[], Any]]] = []
        self._wake: list[tuple[int, Any]] = []
        self._faults = list(plan.faults)
        self.processes: list[Any] = []
        self.gone: list[Any] = []
        self.current: Any = None

    # -- what a world is -----------------------------------------------------------------------------------------------

    def comes(self) -> None:
        """What comes by itself before the processes get on."""

    def joined(self, process: Any) -> None:
        """It is there again, or hears of the world again."""

    def left(self, process: Any, suspect: bool) -> None:
        """It stands still or is gone; `suspect`: it may be what crash marks say of it."""

    def state(self, process: Any) -> str:
        """What it is doing between two turns, for the coverage of states."""
        return ""

    # -- what happened -------------------------------------------------------------------------------------------------

    def store_time(self) -> float:
        return self.clock.time() + self.skew

    def token(self) -> str:
        self._tokens += 1
        return f"name-{self._tokens}"

    def note(self, kind: str, text: str) -> None:
        self.hits[kind] += 1
        self.say(kind, text)

    def say(self, kind: str, text: str) -> None:
        line = f"{self.number} {self.current.name if self.current else '-'} {kind} {text}"
        self._digest.update(line.encode() + b"\n")
        if self.trace is not None:
            self.trace.append(line)

    def hashed(self) -> Any:
        """Of everything that happened."""
        whole = self._digest.copy()
        for topic in sorted(self.log.topics):
            for message in self.log.order.get(topic, []):
                whole.update(repr((message.t, message.p, message.k, message.v, message.h, message.at)).encode())
        return whole

    def digest(self) -> str:
        """The same for the same seed."""
        return str(self.hashed().hexdigest())

    # -- turning -------------------------------------------------------------------------------------------------------

    @property
    def able(self) -> list[Any]:
        return [process for process in self.processes if process.able]

    def turn_all(self, ending: Callable[[], object]) -> None:
        """All steps of the plan, then its end."""
        with failpoints.watched(self.reach):
            while self.number < self.plan.steps:
                self.step()
            ending()

    def step(self) -> None:
        self.number += 1
        self.outside()
        while self._faults and self._faults[0].step <= self.number and self.able:
            self._begin(self._faults.pop(0))
        if self.able:
            self.turn(self.chance.choice(self.able))
        self.clock.forward(self.chance.choice(TIMES))

    def _begin(self, fault: Fault) -> None:
        """Those at a place wait there; of the others it is noted when they came true."""
        if fault.place:
            self.armed.setdefault(fault.place, []).append(fault)
            return
        able = self.able
        process = able[fault.target % len(able)]
        self.met[fault.kind, self.state(process)] += 1
        if self.actions[fault.kind](self, fault, process):
            self.note(fault.kind, f"target {fault.target} size {fault.size:g}")

    def outside(self) -> None:
        """What comes by itself: what the world says, late bytes, calls that get on, messages under way, processes
        started again."""
        self.comes()
        for late in [late for late in self.calls if late[0] <= self.number]:
            self.calls.remove(late)
            self._landed(late[1], late[2])
        for process in [*self.processes, *self.gone]:
            for threads in process.threads if not process.paused else ():
                self._turn_threads(process, threads)
        for process in self.processes:
            process.producer.write()
        for wake in [wake for wake in self._wake if wake[0] <= self.number]:
            self._wake.remove(wake)
            self._woken(wake[1])
        for back in [back for back in self.back if back[0] <= self.number]:
            self.back.remove(back)
            process = back[1]()
            self.processes.append(process)
            self.joined(process)

    def _turn_threads(self, process: Any, threads: Any) -> None:
        before, self.current = self.current, process
        try:
            threads.turn(self.number)
        except Death as death:
            self.die(process, str(death))
        finally:
            self.current = before

    def _landed(self, name: str, act: Callable[[], Any]) -> None:
        try:
            act()
            self.note("late call lands", name)
        except SluicegateError:
            self.note("late call refused", name)

    def _woken(self, process: Any) -> None:
        process.paused = False
        self.joined(process)
        if process.doomed:
            self.die(process, "while it stood still")

    def turn(self, process: Any) -> None:
        before, self.current = self.current, process
        try:
            process.turn()
        except Death as death:
            self.die(process, str(death))
        except Failpoint:
            self._end_by_error(process)
        except Exception:
            self.findings.append(f"step {self.number}: {traceback.format_exc(limit=-6)}")
            self.die(process, "a bug")
        finally:
            self.current = before

    def _end_by_error(self, process: Any) -> None:
        try:
            process.let_go()
        except Death as death:  # in a call of a handler that was still running
            self.die(process, str(death))
        else:
            self.die(process, "an error", not process.marks_cleared)

    def reach(self, place: str) -> None:
        """The process that is turned, or a thread of it, is at this place: whatever is armed there comes true."""
        waiting, process = self.armed.get(place), self.current
        if not waiting or process is None or not process.alive:
            return
        fault = waiting[0]
        if fault.kind == "pause-at" and (process.locked or self._depth >= DEEPEST or self.calm):
            return
        waiting.pop(0)
        self.note(fault.kind, place)
        self.met[fault.kind, place] += 1
        if fault.kind == "kill-at":
            raise Death(place)
        if fault.kind == "lost-at":
            raise PersistenceError(f"the store does not answer at {place}: by the simulation")
        if fault.kind == "raise-at":
            raise Failpoint(place)
        self._stand_still(process, int(fault.size))

    def _stand_still(self, process: Any, steps: int) -> None:
        """In the middle of what it does, while all others go on and take what it has."""
        self._pause(process)
        self._depth += 1
        end = min(self.number + steps, self.plan.steps)
        before, self.current = self.current, None
        while self.number < end:
            self.step()
        self.current, process.paused = before, False
        self._depth -= 1
        if process.doomed:
            raise Death("while it stood still")

    def _pause(self, process: Any) -> None:
        process.paused = True
        self.left(process, True)

    def pause(self, process: Any, steps: int) -> None:
        """Between two turns: it polls again so many steps on."""
        self._pause(process)
        self._wake.append((self.number + steps, process))

    def die(self, process: Any, why: str, suspect: bool = True) -> None:
        """As kill -9: what is not in the store or in the log is gone. Who could say that it lived is no `suspect`."""
        self.say("dies", f"{process.name} {why}")
        process.alive = False
        self.processes.remove(process)
        self.gone.append(process)
        self.say("late copies", str(process.producer.late(self.chance.randrange(4))))
        self.back.append((self.number + (0 if self.calm else BACK_AFTER), process.again))
        self.left(process, suspect)

    def settle(self) -> None:
        """The faults have stopped."""
        self.calm, self.armed, self._wake = True, {}, []
        for process in self.processes:
            process.paused = process.doomed = False
            process.away = process.late = process.twice = 0
            process.producer.failing = process.producer.gaps = process.producer.slow = process.producer.full = 0
