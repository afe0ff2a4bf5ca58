"""One run of a plan: applications write, dispatchers are turned one at a time, their calls get on when the scheduler says."""

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from connectors.memory.state import MemoryStore
from streams import failpoints
from streams.errors import ConcurrencyError, SluicegateError
from streams.leased.messages import OutboxMessage
from streams.leased.options import LeasedOptions, OutboxOptions, TimeoutOptions
from streams.leased.values import Timeout
from streams.testing.deaths import Death
from streams.testing.log import Clock, Log
from tests.simulation.dispatch.faults import begin
from tests.simulation.dispatch.plan import Item, Plan
from tests.simulation.dispatch.process import LEASE, Process
from tests.simulation.plan import Fault

TIMES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.3)  # seconds between two steps
DEEPEST, BACK_AFTER, MOST_ROUNDS = 3, 4, 3_000
SPACE = uuid.UUID(int=7)


class World:
    """`number` is the step; `hits` counts the faults that came true, `overlaps` the claims of a lane that another process had in hand."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.chance = plan, Random(f"run {plan.seed}")
        self.clock, self.skew = Clock(), 0.0
        self.log = Log()
        self.log.create("out", 3)
        outbox = OutboxOptions(3, timedelta(seconds=0.2), timedelta(seconds=1.0))
        options = LeasedOptions(None, TimeoutOptions(timedelta(seconds=LEASE)), outbox)
        self.store = MemoryStore(self.store_time, lambda: "the only one", options)
        self.store.outbox.set_lanes(plan.lanes)
        self.number = self._tokens = self._depth = self.overlaps = 0
        self.hits: Counter[str] = Counter()
        self.findings: list[str] = []
        self.wire: list[tuple[int, str, Callable[[], Any]]] = []
        self.armed: dict[str, list[Fault]] = {}
        self.refused: set[str] = set()
        self.offered: set[str] = set()
        self.passed: set[str] = set()
        self.said: dict[tuple[str, int], bool] = {}  # what the store answered to a cancel or a move
        self.due: dict[int, datetime] = {}  # of each timeout, as it was inserted or moved
        self.calm = False
        self._digest = hashlib.sha256()
        self._items, self._faults = list(plan.items), list(plan.faults)
        self._back: list[int] = []
        self._wake: list[tuple[int, Process]] = []
        self.processes = [Process(self, plan) for _ in range(plan.dispatchers)]
        self.gone: list[Process] = []
        self.current: Process | None = None

    def store_time(self) -> float:
        return self.clock.time() + self.skew

    def token(self) -> str:
        self._tokens += 1
        return f"name-{self._tokens}"

    def note(self, kind: str, text: str) -> None:
        self.hits[kind] += 1
        self._digest.update(f"{self.number} {self.current.name if self.current else '-'} {kind} {text}\n".encode())

    @property
    def able(self) -> list[Process]:
        return [process for process in self.processes if process.able]

    # -- turning -------------------------------------------------------------------------------------------------------

    def run(self) -> "World":
        with failpoints.watched(self.reach):
            while self.number < self.plan.steps:
                self.step()
            self._drain()
        return self

    def step(self) -> None:
        self.number += 1
        self.outside()
        while self._faults and self._faults[0].step <= self.number and self.able:
            begin(self, self._faults.pop(0))
        if self.able:
            self.turn(self.chance.choice(self.able))
        self.clock.forward(self.chance.choice(TIMES))

    def outside(self) -> None:
        """What comes by itself: applications, calls that get on, late bytes, rows under way, processes that are started again."""
        while self._items and self._items[0].step <= self.number:
            self._apply(self._items.pop(0))
        for late in [late for late in self.wire if late[0] <= self.number]:
            self.wire.remove(late)
            self._landed(late[1], late[2])
        for process in [*self.processes, *self.gone]:
            if not process.paused:
                before, self.current = self.current, process
                process.threads.turn(self.number)
                self.current = before
        for process in self.processes:
            process.producer.write()
            if not process.producer.waiting:  # the topic that denied is there again
                process.producer._broken = {place: fate for place, fate in process.producer._broken.items() if fate != "denied"}
        for wake in [wake for wake in self._wake if wake[0] <= self.number]:
            self._wake.remove(wake)
            wake[1].paused = False
        for back in [back for back in self._back if back <= self.number]:
            self._back.remove(back)
            self.processes.append(Process(self, self.plan))

    def _apply(self, item: Item) -> None:
        """What an application does, in a transaction of its own."""
        id = uuid.uuid5(SPACE, str(item.number))
        if item.kind in ("add", "again"):
            message = OutboxMessage("out", item.key, b"row %d" % item.number, (), f"row-{item.number}")
            self.store.outbox.add(None, [message], require_transaction=False)
            return
        due = datetime.fromtimestamp(self.store_time() + item.seconds, UTC)
        if item.kind == "insert":
            self.due[item.number] = due
            self.store.timeouts.insert(Timeout(id, "out", due, item.key, b"timeout %d" % item.number))
        elif item.kind == "cancel":
            self.said["cancel", item.number] = self.store.timeouts.cancel(id)
        elif self.store.timeouts.reschedule(id, due):
            self.said["move", item.number], self.due[item.number] = True, due

    def _landed(self, name: str, act: Callable[[], Any]) -> None:
        try:
            act()
            self.note("late bytes land", name)
        except ConcurrencyError:
            self.note("late bytes refused", name)

    def turn(self, process: Process) -> None:
        before, self.current = self.current, process
        try:
            process.dispatcher.turn()
        except Death as death:
            self.die(process, str(death))
        except SluicegateError as error:
            self.findings.append(f"step {self.number}: a dispatcher ended by {type(error).__name__}: {error}")
            self.die(process, "a bug")
        finally:
            self.current = before

    def reach(self, place: str) -> None:
        """The process that is turned, or a thread of it, is at this place: whatever is armed there comes true."""
        waiting, process = self.armed.get(place), self.current
        if not waiting or process is None or not process.alive:
            return
        fault = waiting[0]
        if fault.kind == "pause-at" and (self._depth >= DEEPEST or self.calm):
            return
        waiting.pop(0)
        self.note(fault.kind, place)
        if fault.kind == "kill-at":
            raise Death(place)
        self._stand_still(process, int(fault.size))

    def _stand_still(self, process: Process, steps: int) -> None:
        process.paused = True
        self._depth += 1
        end = min(self.number + steps, self.plan.steps)
        before, self.current = self.current, None
        while self.number < end:
            self.step()
        self.current, process.paused = before, False
        self._depth -= 1
        if process.doomed:
            raise Death("while it stood still")

    def pause(self, process: Process, steps: int) -> None:
        process.paused = True
        self._wake.append((self.number + steps, process))

    def die(self, process: Process, why: str) -> None:
        """As kill -9: what is not in the store, in the log or under way is gone."""
        self.note("dies", why)
        process.alive = False
        self.processes.remove(process)
        self.gone.append(process)
        process.producer.late(self.chance.randrange(4))
        self._back.append(self.number + (0 if self.calm else BACK_AFTER))

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def holder(self, lane: int) -> str:
        return self.store.outbox._lanes[lane].token

    def took(self, process: Process, lane: int, before: str) -> None:
        """Somebody who had it still believes so."""
        for other in self.processes:
            lanes = other.dispatcher.lanes.lanes if other is not process and other.dispatcher.lanes else []
            if any(each.number == lane and each.token == before and each.phase != "idle" for each in lanes):
                self.overlaps += 1

    def looked(self, batch: Sequence[Timeout]) -> None:
        """No timeout is given to anybody before it is due on the store's clock."""
        now = self.store_time()
        early = [each for each in batch if each.due_at.timestamp() > now + 1e-6]
        self.findings += [f"{each.id} was claimed {each.due_at.timestamp() - now:.3f} s too early" for each in early]

    # -- the end -------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Faults have stopped: everything must be sent, or dead."""
        self.calm, self.armed, self._wake = True, {}, []
        for process in self.processes:
            process.paused = process.doomed = process.lost = False
            process.away = process.late = process.twice = 0
            process.producer.failing = process.producer.gaps = process.producer.slow = process.producer.full = 0
        rounds = 0
        while not self._done() and rounds < MOST_ROUNDS:
            rounds += 1
            self.number += 1
            self.outside()
            for process in list(self.processes):
                if process.alive:
                    self.turn(process)
            self.clock.forward(0.1)
        if rounds == MOST_ROUNDS:
            self.findings.append(f"not done after {MOST_ROUNDS} rounds without faults: {self.store.outbox.count()} rows are pending")

    def _done(self) -> bool:
        return not (self.store.outbox.count() or self.store.timeouts.count() or self._items or self._back or self.wire)

    def digest(self) -> str:
        """Of everything that happened: the same for the same seed."""
        whole = self._digest.copy()
        for message in self.log.order.get("out", []):
            whole.update(repr((message.p, message.k, message.v, message.h, message.at)).encode())
        return whole.hexdigest()
