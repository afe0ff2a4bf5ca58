"""When the faults have stopped: everything must come to an end."""

from math import inf
from typing import Any

from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.engine.worker import PROBE_EVERY
from sluicegate.streams.ownership.store_clock import BACK
from tests.simulation.process import APP
from tests.simulation.shared import empty

MOST_ROUNDS = 4_000  # until everything must be done
LOOKS = 2 * PROBE_EVERY + 1.0  # seconds until an owner that is idle has found out that the store is not what it was
# rounds from deadline to deadline; after a jump back of the store's clock an owner's stands still for as long
PATIENCE = 300


def drain(world: Any) -> None:
    """Turn every process until nothing is left to do; what is not done then is a finding."""
    world.settle()
    for process in world.processes:
        process.input.away = process.input.ahead = process.input.stale = 0
        process.store.buffer.late, process.store.buffer.lost = 0, False
    quiet = rounds = 0
    marks = any(agent.times for agent in world.plan.agents)  # they are due for ever
    enough, pause = (1, 0.05) if marks else (3, 0.3)
    looked = world.clock.now + (LOOKS if world.rewound or len(world.skews) > 1 else 0.0)
    asked = False  # whether the deadlines are those of a clock that is right
    while quiet < enough and rounds < MOST_ROUNDS:
        world.number += 1
        rounds += 1
        world.outside()
        if rounds == 1:
            for agent in world.plan.agents:
                world.share(agent.name, 0)
        for process in list(world.processes):
            if process.alive:
                world.turn(process)
        due = min(
            (process.worker.due_in(world.clock.now) for process in world.processes if process.agent.times is None),
            default=0.0,
        )
        over = done(world)
        over = over and world.clock.now >= looked
        if over and not asked:
            asked = True
            world.findings.extend(too_far(world))
        still = due == inf and over and not world.wire and not world.back
        still = still and owned(world) and handled(world) and closed(world)
        quiet = quiet + 1 if still else 0
        world.times.append(world.clock.now)
        world.clock.forward((max(due, 0.01) if rounds < PATIENCE else 60.0) if over and due < inf else pause)
    if quiet < enough:
        world.findings.append(f"not done after {MOST_ROUNDS} rounds without faults: {states(world)}")


def too_far(world: Any) -> list[str]:
    """Open groups that wait for longer than their own timeouts: a clock that was ahead has opened them."""
    problems = []
    for process in world.processes:
        for owner in process.worker._owners.values():
            groups, now = owner.groups.newest, owner.clock.last
            completion = groups.rule.completion
            longest = max(
                (seconds for seconds in (completion.since_first, completion.since_last) if seconds < inf), default=inf
            )
            waits = max((groups.due(state) - now for state in groups.states.values()), default=0.0)
            if longest < waits - BACK < inf:
                problems.append(
                    f"{owner.partition}: a group waits for {waits:.1f} s, and its timeout is {longest:.1f} s"
                )
    return problems


def done(world: Any) -> bool:
    """Is everything read, committed and sent, but for partitions that stopped?"""
    rows = world.store._rows
    for name, group in world.groups.items():
        for place in group.places:
            row = rows.get(Partition(APP, name, *place))
            if (row is None or row.unsent or row.claim.offset != world.log.high(*place)) and place not in halted(
                world, name
            ):
                return False
    return empty(world) and not world.calls


def owned(world: Any) -> bool:
    """Has every partition an owner, or stopped? Without one, nothing is due."""
    alive = [process for process in world.processes if process.alive]
    owners = {(process.agent.name, place) for process in alive for place in process.worker._owners}
    places = [(name, place) for name, group in world.groups.items() for place in group.places]
    return all((name, place) in owners or place in halted(world, name) for name, place in places)


def handled(world: Any) -> bool:
    """Does nothing wait for a slow handler?"""
    return not any(owner.sealed.by_number for process in world.processes for owner in process.worker._owners.values())


def closed(world: Any) -> bool:
    """Does no open window wait for silence? It is due only when a broker has said that nothing came."""
    windows = [owner.groups.windows for process in world.processes for owner in process.worker._owners.values()]
    silent = [
        window for window in windows if window is not None and window.merged is None and window.window.idle is not None
    ]
    return not any(group not in item.closed for item in silent for group in item.states)


def halted(world: Any, agent: str) -> dict[tuple[str, int], str]:
    reports = [process.worker.reports.of(world.clock.now) for process in world.processes if process.agent.name == agent]
    return {(p.topic, p.number): p.error or "" for report in reports for p in report.partitions if p.state == "halted"}


def states(world: Any) -> dict[str, dict[tuple[str, int], str]]:
    """The partitions that stopped, and why, by agent."""
    return {name: halted(world, name) for name in world.groups}
