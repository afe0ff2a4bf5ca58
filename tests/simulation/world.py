"""One run of a plan: workers of its agents, their groups, the log and the store."""

import json
from collections.abc import Sequence
from math import inf
from typing import Any

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Changes, Claim, CrashMark, Partition
from tests.simulation import deployed, handlers
from tests.simulation.calm import drain
from tests.simulation.coverage import state_of
from tests.simulation.faults import OF_WORKERS
from tests.simulation.kafka import Group
from tests.simulation.plan import Plan
from tests.simulation.process import APP, Process
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import State, saved


class World(Scheduler):
    """The workers of a plan's agents, what they share, and what is known of their past."""

    actions = OF_WORKERS

    def __init__(self, plan: Plan, keep_trace: bool = False) -> None:
        super().__init__(plan, keep_trace)
        for topic in ("in", "mid", "out", "dead"):
            self.log.create(topic, plan.partitions)
        self.store = MemoryStore(self.store_time, lambda: "the only one")
        self.times: list[float] = []  # the clock at each step
        self.wire: list[tuple[int, Claim, Changes]] = []
        self.suspects: set[str] = set()  # names in crash marks of processes that died or stood still then
        self.marks: dict[tuple[Partition, int], set[str]] = {}  # names that claims found in the mark of this offset
        self.batches: dict[str, str] = {}  # batches of shared buffers, by the ids of their messages
        self.unreported: dict[str, set[str]] = {}  # by batch: leases of runs alone whose end the store did not hear
        self.cut_off: list[tuple[str, Partition, int]] = []  # process, and what its slow handlers had begun then
        self.kept: dict[int, State] = {}
        self.tokens: dict[Partition, str] = {}  # of the last claims
        # to which version, and whether Kafka had been told a later one
        self.rewound: dict[Partition, tuple[int, bool]] = {}
        self._entries = iter(plan.records)
        self._next = next(self._entries, None)
        self._copies = {fault.step - int(fault.size) for fault in plan.faults if fault.kind == "rewind"}
        handlers.reset()
        self.groups = {agent.name: Group(self._places(agent), plan.cooperative) for agent in plan.agents}
        self.deployed = deployed.first(plan)
        self.files: dict[str, Agent] = {}  # of the process that claimed, by the claim's token
        self.claims: dict[Partition, list[tuple[str, float]]] = {}  # the tokens, and when
        self.highs: dict[str, float] = {}  # the end of the partition at the claim, as the broker named it
        self.takers: set[str] = set()  # tokens of the claims under which records were taken for good
        started = [(agent, number) for agent in plan.agents for number in range(plan.workers)]
        self.processes = [Process(self, self._file(agent, number), number) for agent, number in started]

    def _file(self, agent: Agent, number: int) -> Agent:
        """What the first file of this worker says."""
        return self.plan.files[number % len(self.plan.files)] if self.plan.files else agent

    def _places(self, agent: Agent) -> list[tuple[str, int]]:
        return [(topic, number) for topic in agent.topics for number in range(self.plan.partitions)]

    def run(self) -> "World":
        for group in self.plan.agents:
            self.share(group.name, 0)
        self.turn_all(self._end)
        return self

    def _end(self) -> None:
        self._overlap()
        for process in [process for process in self.processes if process.deployed.number < self.deployed.number]:
            self.die(process, "does not run the newest version", not process.marks_cleared)
        drain(self)

    def _overlap(self) -> None:
        """Where none came by itself: who holds a partition stands still until another has claimed it."""
        until = self.number + 400
        for name in self.groups if not self.overlaps else ():
            self.share(name, 0)  # who stood still at the last step has not been heard of again
        while not self.overlaps and self.number < until:
            holders = [process for process in self.able if process.worker._owners]
            if holders and len(self.able) > len(self.groups):
                self.pause(holders[0], 60)
                self.note("pause", "of who holds a partition")
            self.step()

    def step(self) -> None:
        self.times.append(self.clock.now)
        super().step()

    def comes(self) -> None:
        """Records, copies of the store, late bytes of commits."""
        while self._next is not None and self._next.step <= self.number:
            _, partition, key, value = self._next
            self.log.append("in", partition, key, value, None, int(self.clock.time() * 1000))
            self._next = next(self._entries, None)
        if self.number in self._copies:
            self.kept[self.number] = saved(self.store)
        for late in [late for late in self.wire if late[0] <= self.number]:
            self.wire.remove(late)
            self._committed_late(late[1], late[2])

    def _committed_late(self, claim: Claim, changes: Changes) -> None:
        try:
            self.store.commit(claim, changes)
            self.committed(claim, changes.offset)
            self.suspects |= marked(changes.trying) - {process.worker._setting.process for process in self.processes}
            self.note("late bytes land", f"{claim.partition.topic}/{claim.partition.number}")
        except Exception as error:
            self.note("late bytes refused", type(error).__name__)

    def share(self, agent: str, first: int) -> int:
        """The group gives each partition to a member that is not silent."""
        return self.groups[agent].assign([process for process in self.able if process.agent.name == agent], first)

    def state(self, process: Process) -> str:
        return state_of(process.worker)

    def joined(self, process: Process) -> None:
        self.share(process.agent.name, self.chance.randrange(9))

    def left(self, process: Process, suspect: bool) -> None:
        """The group gives what it has to others, at once or when it hears of it; it does not know."""
        self._suspect(process, suspect)
        process.group.leave(process)
        if process.alive or self.chance.random() < 0.7:
            self.share(process.agent.name, self.chance.randrange(9))

    def lost_writes(self, now: State, before: State) -> None:
        """The store went back: which partitions, and whether Kafka had been told more of them than is left. A claim
        that is taken back without a commit makes the owner before it the owner again."""
        for partition, row in now.items():
            if partition in before:
                self.tokens[partition] = before[partition].claim.token
            version = before[partition].claim.version if partition in before else 0
            if version >= row.claim.version:
                continue
            place = f"{APP}.{partition.agent}", partition.topic, partition.number
            _, metadata = self.log.committed.get(place, (-1, ""))
            self.rewound[partition] = version, bool(metadata) and json.loads(metadata)[1] > version

    def committed(self, claim: Claim, offset: int) -> None:
        """A stale owner changes nothing: only who claimed last may."""
        if offset > claim.offset:
            self.takers.add(claim.token)
        if claim.token != self.tokens.get(claim.partition) and not self.rewound:
            self.findings.append(
                f"{claim.partition}: {claim.token} changed it after {self.tokens.get(claim.partition)} had claimed it"
            )

    def claimed(self, process: Process, partition: Partition, token: str) -> None:
        self.tokens[partition] = token
        self.files[token] = process.agent
        self.claims.setdefault(partition, []).append((token, self.clock.time()))
        self.highs[token] = process.input.highs.get((partition.topic, partition.number), inf)
        mark = self.store._rows[partition].claim.trying
        if mark is not None:
            self.marks.setdefault((partition, mark.offset), set()).update(marked(mark))
        others = [item for item in self.processes if item is not process and item.alive and item.believes(partition)]
        for other in self.processes:
            if other is not process and other not in others and other.agent.name == partition.agent:
                self._unlearned(other, [partition])
        if others:
            self.overlaps += 1
            self.say("overlap", f"{partition.topic}/{partition.number} of {others[0].name}")

    def _suspect(self, process: Process, suspect: bool) -> None:
        """It may be what crash marks say of it; and what its slow handlers had begun is cut off."""
        for row in self.store._rows.values() if suspect else ():
            self.suspects |= marked(row.claim.trying) & {process.worker._setting.process}
        if suspect:
            process.store.buffer.unreported()
        for owner in process.worker._owners.values():
            cut = {item.number for item in owner.sealed.by_number.values() if item.attempts} | set(owner.sealed.ours)
            self.cut_off += [(process.name, owner.partition, number) for number in sorted(cut)]
        if not process.alive:
            places = self.groups[process.agent.name].places
            self._unlearned(process, [Partition(APP, process.agent.name, *place) for place in places])

    def _unlearned(self, process: Process, partitions: Sequence[Partition]) -> None:
        """The process lost its claim to a commit whose outcome it does not know. It dies, or another claims the
        partition, before it claims again. So it cannot take back the attempts that it began under that claim, and the
        next owner counts them."""
        began = process.worker._setting.slow._ours if process.worker._setting.slow is not None else {}
        for partition in partitions:
            place = partition.topic, partition.number
            if place not in process.worker._owners:
                self.cut_off += [(process.name, partition, number) for number in sorted(began.get(place, ()))]

    def hashed(self) -> Any:
        whole = super().hashed()
        for partition in sorted(self.store._rows):
            whole.update(repr(self.store._rows[partition].claim).encode())
        return whole


def marked(mark: CrashMark | None) -> set[str]:
    """The processes named in it."""
    return {name.rstrip("+!") for name in mark.processes} if mark is not None else set()
