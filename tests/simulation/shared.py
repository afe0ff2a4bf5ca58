"""`scope: shared` in a simulation: the buffer as one process reaches it, and what must be in the outbox in the end.

Results go to the outbox of the dispatcher, which is simulated apart (`dispatch`): they are judged where they are
written.
"""

import json
from collections import Counter
from typing import Any

from sluicegate.connectors.buffers import deadline
from sluicegate.connectors.times import length
from sluicegate.streams.contracts.leased_values import Gate
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.shared.shared_records import buffer_name
from tests.simulation import shared_dues, shared_early
from tests.simulation.handlers import DEADLY
from tests.unit.aggregation.oracle import Oracle

ACTS = frozenset(
    {"insert_packs", "insert_and_seal", "due", "complete", "complete_all", "renew", "renew_all", "release"}
    | {"early", "complete_early"}
)
SHARED = ("shared-inserted", "shared-sealed", "shared-completed")


class Buffer:
    """`lost`: the reply of the next call that acts; `late`: its bytes land so many steps later, which says that its
    result is unknown; `alone`: the batch that the process runs alone, as it told the store, and the
    token of its lease."""

    def __init__(self, inner: Any, process: Any) -> None:
        self._inner, self._process = inner, process
        self.late = 0
        self.lost = False
        self.alone: tuple[str, str] | None = None
        self._last = True  # a process that is gone has one call on its way

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return lambda *parts: self._call(name, lambda: method(*parts), parts) if callable(method) else method

    @property
    def at_once(self) -> int:
        return 7

    def _call(self, name: str, act: Any, parts: Any) -> Any:
        world, process = self._process.world, self._process
        if not process.alive and not self._last:
            raise PersistenceError("this process is gone")
        self._last = process.alive
        if world.number < process.away:
            self.unreported()
            raise PersistenceError("the store does not answer: by the simulation")
        if name == "renew" and len(parts) > 3:
            batches = self._inner._buffer(parts[0]).batches
            self.alone = next(((id, parts[1]) for id, batch in batches.items() if batch.token == parts[1]), None)
        if name == "complete_early":
            world.batches |= {message.id: "" for _, messages in parts[2] for message in messages}
        if name == "complete_all":
            world.batches |= {message.id: batch.id for batch, messages in parts[1] for message in messages}
        if name in ACTS and self.late:
            later, self.late = world.number + self.late, 0
            world.calls.append((later, name, act))
            raise PersistenceError("no answer, the bytes are under way: by the simulation")
        sealed = shared_dues.sealed(self._inner, name, parts)
        result = act()
        if name in ("complete_all", "release") or (name == "renew_all" and not any(result)):
            self.alone = None
        if name == "due":
            world.findings.extend(too_far(self._inner, *parts[:2]))
        world.findings.extend(shared_dues.judge(self._inner, process.agent, name, parts, result, sealed))
        world.findings.extend(shared_early.judge(self._inner, name, parts, result))
        if name in ACTS and self.lost:
            self.lost = False
            world.note("shared reply lost", name)
            raise PersistenceError("no answer, and it acted: by the simulation")
        return result

    def unreported(self) -> None:
        """The process died, stands still or does not reach the store, while it runs a batch alone."""
        if self.alone is not None:
            batch, lease = self.alone
            self._process.world.unreported.setdefault(batch, set()).add(lease)


def too_far(buffer: Any, name: str, gate: Gate) -> list[str]:
    """Deadlines and leases that wait for a clock that was ahead, after a look for what is due."""
    rows, now = buffer._buffer(name), buffer._now()
    latest = deadline(gate, now, now)
    waits = [due_at - latest for due_at in rows.deadlines.values() if latest is not None]
    waits += [batch.expires - now - length(gate.lease) for batch in rows.batches.values()]
    longest = max(waits, default=0)
    return [f"something in the buffer waits for {longest / 1e6:.1f} s longer than it may"] if longest > 0 else []


def empty(world: Any) -> bool:
    """Is nothing left in any buffer?"""
    return all(
        not world.store.buffer.count(buffer_name("app", agent.name))
        for agent in world.plan.agents
        if agent.scope == "shared"
    )


def _crashed(world: Any, number: int) -> set[int]:
    """Offsets of this partition whose dead letter says that they ended three processes."""
    letters = [
        {name: (value or b"").decode(errors="backslashreplace") for name, value in message.h or ()}
        for message in world.log.order.get("dead", [])
    ]
    mine = [headers for headers in letters if headers["sluicegate-dead-partition"] == str(number)]
    return {int(headers["sluicegate-dead-offset"]) for headers in mine if headers["sluicegate-dead-reason"] == "crash"}


def _innocent(world: Any, number: int, crashed: set[int]) -> list[int]:
    agent = world.plan.agents[0].name
    return [
        offset
        for offset in crashed
        if len(world.marks.get((Partition("app", agent, "in", number), offset), set()) & world.suspects) < 3
    ]


def _results(world: Any, problems: list[str]) -> list[tuple[Any, dict[str, Any], list[int]]]:
    """The rows of the outbox, their documents, and the records that count with each: those of its group, if no later
    result of the group is there."""
    rows = [(row, json.loads(row.message.value)) for row in world.store.outbox._rows.values()]
    emits = world.plan.agents[0].aggregation.emit is not None
    wrong = list(shared_early.last_results(world, rows)) if emits else []
    problems += [what for what, _ in wrong if what]
    replaced = {id for _, id in wrong}
    return [(row, document, [] if row.message.id in replaced else document["all"]) for row, document in rows]


def judge(world: Any) -> list[str]:
    """Every record that can be used is in one result, every other is a dead letter, once each. The group that ends its
    process is a dead letter; another only after three runs alone of which the store did not hear the end."""
    agent = world.plan.agents[0]
    wanted, ends, letters, problems = Counter[int](), set[int](), 0, list[str]()
    for number, records in enumerate(world.log.topics["in"]):
        crashed = _crashed(world, number)
        problems += [
            f"in/{number}: {record} is a dead letter of a crash without three processes"
            for record in _innocent(world, number, crashed)
        ]
        oracle = Oracle(agent.aggregation)
        for record in records:
            oracle.take(record.o, record.k, record.v, 0.0)
        refused = {offset for offset, _ in oracle.refused} | crashed
        letters += len(refused)
        taken = [json.loads(record.v) for record in records if record.o not in refused]
        wanted.update(record["at"] for record in taken)
        if (until := agent.aggregation.until) is not None:
            ends |= {record["at"] for record in taken if record[until.field] == until.equals}
    got = Counter[int]()
    for row, document, records in _results(world, problems):
        got.update(records)
        letter, runs = row.message.topic == "dead", world.unreported.get(world.batches[row.message.id], set())
        if not letter if DEADLY in document["all"] else letter and len(runs) < 3:
            problems.append(f"{row.message.id} went to {row.message.topic}: {document}")
        if len(document["all"]) != document["count"] or (document["reason"] == "count") != (
            document["count"] == agent.aggregation.count
        ):
            problems.append(f"{row.message.id}: {document}")
        *before, last = document["all"]
        if ends & {*before} or (last in ends and document["reason"] not in ("count", "until")):
            problems.append(f"{row.message.id} has a record behind one that ends its group: {document}")
        if document["reason"] == "until" and last not in ends:
            problems.append(f"{row.message.id} ends by until with {last}, which ends no group")
    dead = {dict(message.h or ())["sluicegate-id"] for message in world.log.order.get("dead", [])}
    problems += [f"{len(dead)} dead letters instead of {letters}"] if len(dead) != letters else []
    problems += [f"lost: record {at}" for at in wanted - got]
    return problems + [f"record {at} counts {got[at]} times" for at in got - wanted]
