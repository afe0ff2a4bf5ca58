"""What each fault of a plan does when its step has come."""

from typing import Any

from streams.testing.deaths import Death
from tests.simulation.plan import Fault


def begin(world: Any, fault: Fault) -> None:
    """Those at a place wait there; of the others it is noted that they came."""
    if fault.place:
        world.armed.setdefault(fault.place, []).append(fault)
        return
    able = world.able
    ACTIONS[fault.kind](world, fault, able[fault.target % len(able)])
    if fault.kind not in ("delivery", "refused", "lost"):
        world.note(fault.kind, f"target {fault.target} size {fault.size:g}")


def _kill(world: Any, fault: Fault, process: Any) -> None:
    """One that is turned, or one that stands still in the middle of something."""
    standing = [each for each in world.processes if each.paused and not each.doomed]
    if standing and fault.target % 3 == 0:
        standing[0].doomed = True
    else:
        world.die(process, "killed")


def _stop(world: Any, fault: Fault, process: Any) -> None:
    """SIGTERM: what is under way is waited for, lanes are given back."""
    before, world.current = world.current, process
    process.threads.inline = True
    try:
        process.threads.turn(1 << 62)
        process.dispatcher._drain(world.clock.now + 2.0)
        world.die(process, "stopped")
    except Death:
        world.die(process, "while it stopped")
    finally:
        world.current = before


def _pause(world: Any, fault: Fault, process: Any) -> None:
    world.pause(process, int(fault.size))


def _lost(world: Any, fault: Fault, process: Any) -> None:
    process.lost = True


def _late(world: Any, fault: Fault, process: Any) -> None:
    process.late = int(fault.size)


def _twice(world: Any, fault: Fault, process: Any) -> None:
    process.twice = int(fault.size)


def _outage(world: Any, fault: Fault, process: Any) -> None:
    for each in world.processes if fault.target % 2 else [process]:
        each.away = world.number + int(fault.size)


def _delivery(world: Any, fault: Fault, process: Any) -> None:
    process.producer.failing = 1 + fault.target % 3
    process.producer.fate = ("failed", "failed-written", "failed-late")[fault.target % 3]


def _refused(world: Any, fault: Fault, process: Any) -> None:
    process.producer.failing = 1 + fault.target % 3
    process.producer.fate = ("rejected", "denied")[fault.target % 2]


def _slow_reports(world: Any, fault: Fault, process: Any) -> None:
    process.producer.slow = world.number + int(fault.size)


def _queue_full(world: Any, fault: Fault, process: Any) -> None:
    process.producer.full = world.number + int(fault.size)


def _store_clock(world: Any, fault: Fault, process: Any) -> None:
    world.skew += fault.size


def _clock(world: Any, fault: Fault, process: Any) -> None:
    world.clock.forward(fault.size)


ACTIONS = {
    "kill": _kill, "stop": _stop, "pause": _pause, "lost": _lost, "late": _late, "twice": _twice, "outage": _outage, "delivery": _delivery,
    "refused": _refused, "slow-reports": _slow_reports, "queue-full": _queue_full, "store-clock": _store_clock, "clock": _clock,
}  # fmt: skip
