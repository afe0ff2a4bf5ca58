"""One run of a plan: processes turned one at a time by a scheduler, which a process that stands still turns from where it stands."""

import hashlib
import json
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from connectors.memory.state import MemoryStore
from streams import failpoints
from streams.agent import Agent
from streams.errors import PersistenceError, SluicegateError
from streams.failpoints import Failpoint
from streams.testing.deaths import Death
from streams.testing.log import Clock, Log
from streams.values import Changes, Claim, Partition, Trying
from tests.simulation import handlers
from tests.simulation.calm import drain
from tests.simulation.faults import begin
from tests.simulation.kafka import Group
from tests.simulation.plan import Fault, Plan
from tests.simulation.process import APP, Process
from tests.simulation.store import State, saved

DEEPEST = 3  # processes that stand still in the middle of something, at most
TIMES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.3)  # seconds between two steps
BACK_AFTER = 4  # steps until a process that ended is there again


class World:
    """`number` is the step; `hits` counts the faults that came true, `overlaps` the claims of what another living process held."""

    def __init__(self, plan: Plan, keep_trace: bool = False) -> None:
        self.plan, self.chance = plan, Random(f"run {plan.seed}")
        self.clock, self.skew, self.skews = Clock(), 0.0, [(0.0, 0.0)]
        self.log = Log()
        for topic in ("in", "mid", "out", "dead"):
            self.log.create(topic, plan.partitions)
        self.store = MemoryStore(self.store_time, lambda: "the only one")
        self.number = self._tokens = self._depth = self.overlaps = 0
        self.times: list[float] = []  # the clock at each step
        self.hits: Counter[str] = Counter()
        self.findings: list[str] = []
        self.wire: list[tuple[int, Claim, Changes]] = []
        self.calls: list[tuple[int, str, Callable[[], Any]]] = []  # late ones of the shared buffer
        self.armed: dict[str, list[Fault]] = {}
        self.suspects: set[str] = set()  # names in crash marks of processes that died or stood still then
        self.marks: dict[tuple[Partition, int], set[str]] = {}  # names that claims found in the mark of this offset
        self.cut_off: list[tuple[str, Partition, int]] = []  # process, and what its slow handlers had begun then
        self.kept: dict[int, State] = {}
        self.tokens: dict[Partition, str] = {}  # of the last claims
        self.rewound: dict[Partition, tuple[int, bool]] = {}  # to which version, and whether Kafka had been told a later one
        self.refused: set[str] = set()  # ids of rows that the broker never takes
        self.offered: set[str] = set()  # ids of rows that producers were handed
        self.passed: set[str] = set()  # ids of rows that failed alone: later ones came before them
        self.calm = False
        self._digest, self.trace = hashlib.sha256(), [] if keep_trace else None  # type: ignore[var-annotated]
        self.back: list[tuple[int, Agent, int]] = []
        self.wake: list[tuple[int, Process]] = []
        self._entries = iter(plan.records)
        self._next = next(self._entries, None)
        self._faults = list(plan.faults)
        self._copies = {fault.step - int(fault.size) for fault in plan.faults if fault.kind == "rewind"}
        handlers.reset()
        self.groups = {agent.name: Group(self._places(agent), plan.cooperative) for agent in plan.agents}
        self.processes = [Process(self, agent, number) for agent in plan.agents for number in range(plan.workers)]
        self.gone: list[Process] = []
        self.current: Process | None = None

    def _places(self, agent: Agent) -> list[tuple[str, int]]:
        return [(topic, number) for topic in agent.topics for number in range(self.plan.partitions)]

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

    # -- turning -------------------------------------------------------------------------------------------------------

    def run(self) -> "World":
        for group in self.plan.agents:
            self.share(group.name, 0)
        with failpoints.watched(self.reach):
            while self.number < self.plan.steps:
                self.step()
            self._overlap()
            drain(self)
        return self

    def _overlap(self) -> None:
        """Where none came by itself: who holds a partition stands still until another has claimed it."""
        until = self.number + 400
        while not self.overlaps and self.number < until:
            holders = [process for process in self.able if process.worker._owners]
            if holders and len(self.able) > len(self.groups):
                self.paused(holders[0])
                self.later(60, holders[0])
                self.note("pause", "of who holds a partition")
            self.step()

    def step(self) -> None:
        self.number += 1
        self.times.append(self.clock.now)
        self.outside()
        while self._faults and self._faults[0].step <= self.number and self.able:
            begin(self, self._faults.pop(0))
        if self.able:
            self.turn(self.chance.choice(self.able))
        self.clock.forward(self.chance.choice(TIMES))

    def outside(self) -> None:
        """What comes by itself: records, late bytes, messages under way, processes that are started again."""
        while self._next is not None and self._next.step <= self.number:
            _, partition, key, value = self._next
            self.log.append("in", partition, key, value, None, int(self.clock.time() * 1000))
            self._next = next(self._entries, None)
        if self.number in self._copies:
            self.kept[self.number] = saved(self.store)
        for late in [late for late in self.wire if late[0] <= self.number]:
            self.wire.remove(late)
            self._landed(late[1], late[2])
        self._threads()
        for process in self.processes:
            process.producer.write()
        for wake in [wake for wake in self.wake if wake[0] <= self.number]:
            self.wake.remove(wake)
            wake[1].paused = False
            self.share(wake[1].agent.name, self.chance.randrange(9))
            if wake[1].doomed:
                self.die(wake[1], "while it stood still")
        for back in [back for back in self.back if back[0] <= self.number]:
            self.back.remove(back)
            self.processes.append(Process(self, back[1], back[2]))
            self.share(back[1].name, self.chance.randrange(9))

    def _threads(self) -> None:
        """Calls beside the workers' loops get on, also those of processes that are gone; late ones land."""
        for late in [late for late in self.calls if late[0] <= self.number]:
            self.calls.remove(late)
            with suppress(SluicegateError):
                late[2]()
                self.note("late call lands", late[1])
        for process in [*self.processes, *self.gone]:
            for threads in process.threads if not process.paused else ():
                before, self.current = self.current, process
                threads.turn(self.number)
                self.current = before

    def _landed(self, claim: Claim, changes: Changes) -> None:
        try:
            self.store.commit(claim, changes)
            self.committed(claim)
            self.suspects |= marked(changes.trying) - {each.worker._setting.process for each in self.processes}
            self.note("late bytes land", f"{claim.partition.topic}/{claim.partition.number}")
        except Exception as error:
            self.note("late bytes refused", type(error).__name__)

    @property
    def able(self) -> list[Process]:
        return [process for process in self.processes if process.able]

    def share(self, agent: str, first: int) -> int:
        """The group gives each partition to a member that is not silent."""
        return self.groups[agent].assign([each for each in self.able if each.agent.name == agent], first)

    def turn(self, process: Process) -> None:
        before, self.current = self.current, process
        try:
            process.worker.turn()
        except Death as death:
            self.die(process, str(death))
        except Failpoint:
            process.worker._claims.let_go()
            self.die(process, "an error", not process.acquitted)
        except Exception:
            self.findings.append(f"step {self.number}: {traceback.format_exc(limit=-6)}")
            self.die(process, "a bug")
        finally:
            self.current = before

    def reach(self, place: str) -> None:
        """The process that is turned is at this place: whatever is armed there comes true."""
        waiting, process = self.armed.get(place), self.current
        if not waiting or process is None:
            return
        fault = waiting[0]
        if fault.kind == "pause-at" and (process.locked or self._depth >= DEEPEST or self.calm):
            return
        waiting.pop(0)
        self.note(fault.kind, place)
        if fault.kind == "kill-at":
            raise Death(place)
        if fault.kind == "lost-at":
            raise PersistenceError(f"the store does not answer at {place}: by the simulation")
        if fault.kind == "raise-at":
            raise Failpoint(place)
        self._stand_still(process, int(fault.size))

    def _stand_still(self, process: Process, steps: int) -> None:
        """In the middle of what it does, while all others go on and take what it has."""
        self.paused(process)
        self._depth += 1
        end = min(self.number + steps, self.plan.steps)
        before, self.current = self.current, None
        while self.number < end:
            self.step()
        self.current, process.paused = before, False
        self._depth -= 1
        if process.doomed:
            raise Death("while it stood still")

    def paused(self, process: Process) -> None:
        """The group gives what it has to others; it does not know."""
        process.paused = True
        self._suspect(process)
        process.group.leave(process)
        self.share(process.agent.name, self.chance.randrange(9))

    def later(self, steps: int, process: Process) -> None:
        """It polls again so many steps on."""
        self.wake.append((self.number + steps, process))

    def lost_writes(self, now: State, before: State) -> None:
        """The store went back: which partitions, and whether Kafka had been told more of them than is left."""
        for partition, row in now.items():
            left = before[partition].claim.version if partition in before else 0
            if left >= row.claim.version:
                continue
            place = f"{APP}.{partition.agent}", partition.topic, partition.number
            _, metadata = self.log.committed.get(place, (-1, ""))
            self.rewound[partition] = left, bool(metadata) and json.loads(metadata)[1] > left

    def committed(self, claim: Claim) -> None:
        """A stale owner changes nothing: only who claimed last may."""
        if claim.token != self.tokens.get(claim.partition) and not self.rewound:
            self.findings.append(f"{claim.partition}: {claim.token} changed it after {self.tokens.get(claim.partition)} had claimed it")

    def claimed(self, process: Process, partition: Partition, token: str) -> None:
        self.tokens[partition] = token
        mark = self.store._rows[partition].claim.trying
        if mark is not None:
            self.marks.setdefault((partition, mark.offset), set()).update(marked(mark))
        others = [each for each in self.processes if each is not process and each.alive and each.believes(partition)]
        if others:
            self.overlaps += 1
            self.say("overlap", f"{partition.topic}/{partition.number} of {others[0].name}")

    def die(self, process: Process, why: str, suspect: bool = True) -> None:
        """As kill -9: what is not in the store or in the log is gone. Who could say that it lived is no `suspect`."""
        self.say("dies", f"{process.name} {why}")
        self._suspect(process, suspect)
        process.alive = False
        self.processes.remove(process)
        self.gone.append(process)
        process.group.leave(process)
        late = process.producer.late(self.chance.randrange(4))
        self.say("late copies", str(late))
        self.back.append((self.number + (0 if self.calm else BACK_AFTER), process.agent, process.number))
        if self.chance.random() < 0.7:
            self.share(process.agent.name, self.chance.randrange(9))

    def _suspect(self, process: Process, suspect: bool = True) -> None:
        """It may be what crash marks say of it; and what its slow handlers had begun is cut off."""
        for row in self.store._rows.values() if suspect else ():
            self.suspects |= marked(row.claim.trying) & {process.worker._setting.process}
        for owner in process.worker._owners.values():
            cut = {held.number for held in owner.sealed.held.values() if held.attempts} | set(owner.sealed.ours)
            self.cut_off += [(process.name, owner.partition, number) for number in sorted(cut)]

    def digest(self) -> str:
        """Of everything that happened: the same for the same seed."""
        whole = self._digest.copy()
        for topic in sorted(self.log.topics):
            for message in self.log.order.get(topic, []):
                whole.update(repr((message.t, message.p, message.k, message.v, message.h, message.at)).encode())
        for partition in sorted(self.store._rows):
            whole.update(repr(self.store._rows[partition].claim).encode())
        return whole.hexdigest()


def marked(mark: Trying | None) -> set[str]:
    """The processes named in it."""
    return {name.rstrip("+!") for name in mark.processes} if mark is not None else set()
