"""One run of a plan: applications write, dispatchers send."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.messages import OutboxMessage
from sluicegate.streams.contracts.options import LeasedOptions, OutboxOptions, TimeoutOptions
from tests.simulation.dispatch.faults import ACTIONS
from tests.simulation.dispatch.plan import Item, Plan
from tests.simulation.dispatch.process import LEASE, Process
from tests.simulation.scheduler import Scheduler

MOST_ROUNDS = 3_000
SPACE = uuid.UUID(int=7)


class World(Scheduler):
    """`overlaps` are claims of a lane that another process had in hand."""

    actions = ACTIONS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.log.create("out", 3)
        outbox = OutboxOptions(3, timedelta(seconds=0.2), timedelta(seconds=1.0))
        options = LeasedOptions(None, TimeoutOptions(timedelta(seconds=LEASE)), outbox)
        self.store = MemoryStore(self.store_time, lambda: "the only one", options)
        self.store.outbox.set_lanes(plan.lanes)
        self.said: dict[tuple[str, int], bool] = {}  # what the store answered to a cancel or a move
        self.due: dict[int, datetime] = {}  # of each timeout, as it was inserted or moved
        self.after: set[int] = set()  # those that were inserted with `after`, and not moved
        self._items = list(plan.items)
        self.processes = [Process(self, plan) for _ in range(plan.dispatchers)]

    def run(self) -> "World":
        self.turn_all(self._drain)
        return self

    def comes(self) -> None:
        """What applications do. The topic that denied is there again."""
        while self._items and self._items[0].step <= self.number:
            self._apply(self._items.pop(0))
        for process in self.processes:
            if not process.producer.waiting:
                process.producer._broken = {
                    place: fate for place, fate in process.producer._broken.items() if fate != "denied"
                }

    def _apply(self, item: Item) -> None:
        """What an application does, in a transaction of its own."""
        id = uuid.uuid5(SPACE, str(item.number))
        if item.kind in ("add", "again"):
            message = OutboxMessage("out", item.key, b"row %d" % item.number, (), f"row-{item.number}")
            self.store.outbox.add(None, [message], require_transaction=False)
            return
        due = datetime.fromtimestamp(self.store_time() + item.seconds, UTC)
        if item.kind == "insert":
            after = timedelta(seconds=item.seconds) if item.number % 2 else None
            self.due[item.number] = due
            self.after |= {item.number} if after else set()
            self.store.timeouts.insert(Timeout(id, "out", due, item.key, b"timeout %d" % item.number, after=after))
        elif item.kind == "cancel":
            self.said["cancel", item.number] = self.store.timeouts.cancel(id)
        elif self.store.timeouts.reschedule(id, due):
            self.said["move", item.number], self.due[item.number] = True, due
            self.after.discard(item.number)

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def holder(self, lane: int) -> str:
        return self.store.outbox._lanes[lane].token

    def took(self, process: Process, lane: int, before: str) -> None:
        """Somebody who had it still believes so."""
        for other in self.processes:
            lanes = other.dispatcher.lanes.lanes if other is not process and other.dispatcher.lanes else []
            if any(item.number == lane and item.lease.token == before and item.phase != "idle" for item in lanes):
                self.overlaps += 1

    def looked(self, batch: Sequence[Timeout]) -> None:
        """No timeout is given to anybody before it is due on the store's clock, and none is due later than its own
        time from now."""
        now = self.store_time()
        early = [timeout for timeout in batch if timeout.due_at.timestamp() > now + 1e-6]
        self.findings += [
            f"{timeout.id} was claimed {timeout.due_at.timestamp() - now:.3f} s too early" for timeout in early
        ]
        for row in self.store.timeouts._rows.values():
            wait, after = row.timeout.due_at.timestamp() - now, row.timeout.after
            if row.locked_until <= now * 1_000_000 and after is not None and wait > after.total_seconds() + 1e-3:
                self.findings.append(f"{row.timeout.id} waits {wait:.3f} s, and not {after}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Faults have stopped: everything must be sent, or dead."""
        self.settle()
        for process in self.processes:
            process.lost = False
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
            self.findings.append(
                f"not done after {MOST_ROUNDS} rounds without faults: {self.store.outbox.count()} rows are pending"
            )

    def _done(self) -> bool:
        return not (self.store.outbox.count() or self.store.timeouts.count() or self._items or self.back or self.calls)
