"""What each fault of a plan does when its step has come."""

from typing import Any

from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.failpoints import Failpoint
from sluicegate.streams.testing.deaths import Death
from tests.simulation import deployed
from tests.simulation.plan import Fault
from tests.simulation.scheduler import Action
from tests.simulation.store import saved, went_back


def _kill(world: Any, fault: Fault, process: Any) -> bool:
    """One that is turned, or one that stands still."""
    standing = [process for process in world.processes if process.paused and not process.doomed]
    if standing and fault.target % 3 == 0:
        standing[0].doomed = True
    else:
        world.die(process, "killed")
    return True


def _stop(world: Any, fault: Fault, process: Any) -> bool:
    """SIGTERM: it drains and leaves."""
    before, world.current = world.current, process
    for threads in process.threads:
        threads.finish()
    try:
        process.stop()
    except (Death, Failpoint, SystemNotReady) as error:
        world.die(process, f"while it stopped: {type(error).__name__}")
        return True
    finally:
        world.current = before
    world.die(process, "stopped", not process.marks_cleared)
    return True


def _pause(world: Any, fault: Fault, process: Any) -> bool:
    """Between two turns: it polls again after that."""
    world.pause(process, int(fault.size))
    return True


def _late(world: Any, fault: Fault, process: Any) -> bool:
    process.late = int(fault.size)
    return True


def _twice(world: Any, fault: Fault, process: Any) -> bool:
    process.twice = int(fault.size)
    return True


def _outage(world: Any, fault: Fault, process: Any) -> bool:
    """Of the store, for one process or for all."""
    for item in world.processes if fault.target % 2 else [process]:
        item.away = world.number + int(fault.size)
    return True


def _rebalance(world: Any, fault: Fault, process: Any) -> bool:
    return bool(world.share(process.agent.name, fault.target))


def _redeliver(world: Any, fault: Fault, process: Any) -> bool:
    return bool(process.input.again(int(fault.size), fault.target))


def _ahead(world: Any, fault: Fault, process: Any) -> bool:
    process.input.ahead = int(fault.size)
    return False  # noted when a fetch passes records over


def _stale(world: Any, fault: Fault, process: Any) -> bool:
    process.input.stale = int(fault.size)
    return False  # noted when a broker answers with an end that is old


def _kafka_away(world: Any, fault: Fault, process: Any) -> bool:
    for item in world.processes if fault.target % 2 else [process]:
        item.input.away = world.number + int(fault.size)
    return True


def _delivery(world: Any, fault: Fault, process: Any) -> bool:
    process.producer.failing = 1 + fault.target % 3
    process.producer.fate = ("failed", "failed-written", "failed-late")[fault.target % 3]
    return False  # noted for each row that fails


def _refused(world: Any, fault: Fault, process: Any) -> bool:
    process.producer.failing = 1 + fault.target % 3
    process.producer.fate = ("rejected", "denied")[fault.target % 2]
    return False  # noted for each row that is


def _shared_lost(world: Any, fault: Fault, process: Any) -> bool:
    process.store.buffer.lost = True
    return False  # noted when a reply is


def _shared_late(world: Any, fault: Fault, process: Any) -> bool:
    process.store.buffer.late = int(fault.size)
    return True


def _file(world: Any, fault: Fault, process: Any) -> bool:
    """It is started again with another file, after kill -9 or SIGTERM."""
    process.next = world.plan.files[int(fault.size) % len(world.plan.files)]
    if fault.target % 2:
        return _stop(world, fault, process)
    world.die(process, "killed")
    return True


def _deploy(world: Any, fault: Fault, process: Any) -> bool:
    """Another version becomes the one that runs."""
    policy = deployed.deploy(world, int(fault.size))
    if policy is not None:
        world.note(f"deploy-{policy}", f"version {world.deployed.number}")
    return False


def _notice(world: Any, fault: Fault, process: Any) -> bool:
    """It finds that another version runs, and builds its worker anew."""
    if process.deployed.number == world.deployed.number:
        return False
    return _stop(world, fault, process)


def _gap(world: Any, fault: Fault, process: Any) -> bool:
    process.producer.gaps = 1 + fault.target % 3
    return False  # noted for each row that is passed over


def _slow_reports(world: Any, fault: Fault, process: Any) -> bool:
    process.producer.slow = world.number + int(fault.size)
    return True


def _queue_full(world: Any, fault: Fault, process: Any) -> bool:
    process.producer.full = world.number + int(fault.size)
    return True


def _store_clock(world: Any, fault: Fault, process: Any) -> bool:
    world.skew += fault.size
    world.skews.append((world.clock.time(), world.skew))
    return True


def _clock(world: Any, fault: Fault, process: Any) -> bool:
    world.clock.forward(fault.size)
    return True


def _rewind(world: Any, fault: Fault, process: Any) -> bool:
    """The store is what it was `size` steps ago."""
    before = world.kept.get(fault.step - int(fault.size))
    if before is None:
        return False
    now = saved(world.store)
    went_back(world.store, before)
    world.lost_writes(now, before)
    return True


EVERYWHERE: dict[str, Action] = {
    "kill": _kill,
    "stop": _stop,
    "pause": _pause,
    "late": _late,
    "twice": _twice,
    "outage": _outage,
    "delivery": _delivery,
    "refused": _refused,
    "slow-reports": _slow_reports,
    "queue-full": _queue_full,
    "store-clock": _store_clock,
    "clock": _clock,
}
OF_WORKERS: dict[str, Action] = EVERYWHERE | {
    "rebalance": _rebalance,
    "redeliver": _redeliver,
    "ahead": _ahead,
    "stale": _stale,
    "kafka-away": _kafka_away,
    "rewind": _rewind,
    "gap": _gap,
    "file": _file,
    "deploy": _deploy,
    "notice": _notice,
    "shared-lost": _shared_lost,
    "shared-late": _shared_late,
}
