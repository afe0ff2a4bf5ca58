"""Each kind of fault: a function that does it to its target and returns when it is over. Raises Missed when nothing was
hit."""

import resource
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

import psutil
from confluent_kafka import KafkaException

from tests.soak.crew import child, complete, signalled
from tests.soak.field import Field
from tests.soak.plan import Step

COMMIT = 0.7  # seconds in which a worker under load commits
SMALL = 8192  # bytes that a file may have while the disk is full


class Missed(Exception):
    """There was nothing to hit at that moment."""


class Faults:
    """The faults on a field; `ended` lets those that last end early."""

    def __init__(self, field: Field, ended: threading.Event) -> None:
        self._field, self._crew, self._ended = field, field.crew, ended
        self.known: dict[str, Callable[[Step], None]] = {
            "kill-child": self._kill_child,
            "kill-worker": self._kill_worker,
            "pause": self._pause,
            "late-write": self._late_write,
            "terminate": self._terminate,
            "join-and-leave": self._join_and_leave,
            "kill-broker": self._kill_broker,
            "kill-store": self._kill_store,
            "roll-brokers": self._roll_brokers,
            "move-leaders": self._move_leaders,
            "reset": self._reset,
            "half-open": self._half_open,
            "one-way": self._one_way,
            "two-way": self._two_way,
            "unanswered": self._unanswered,
            "latency": self._latency,
            "bandwidth": self._bandwidth,
            "corruption": self._corruption,
            "clock": self._clock,
            "disk-full": self._disk_full,
            "power-loss": self._power_loss,
            "slow-disk": self._slow_disk,
            "failing-disk": self._failing_disk,
        }

    def _agents(self) -> list[str]:
        return list(self._field.scene.spec["agents"])

    def _lasting(self, step: Step) -> None:
        self._ended.wait(step.seconds)

    # -- processes -----------------------------------------------------------------------------------------------------

    def _kill_child(self, step: Step) -> None:
        if not signalled(child(self._crew.members[_number(step)], step.detail), signal.SIGKILL):
            raise Missed

    def _kill_worker(self, step: Step) -> None:
        number = _number(step)
        if not complete(self._crew.members[number], self._agents()):
            raise Missed
        self._crew.members[number].kill9()
        self._crew.restart(number)

    def _pause(self, step: Step) -> None:
        pid = child(self._crew.members[_number(step)], step.detail)
        if not signalled(pid, signal.SIGSTOP):
            raise Missed
        self._lasting(step)
        signalled(pid, signal.SIGCONT)

    def _late_write(self, step: Step) -> None:
        """A process stands still with a request to the store under way, which arrives when others have its
        partitions; then it goes on."""
        number = _number(step)
        pid, way = child(self._crew.members[number], step.detail), self._field.store_ways[number]
        way.hold("to-server")
        try:
            self._ended.wait(COMMIT)
            if not way.held or not signalled(pid, signal.SIGSTOP):
                raise Missed
            self._lasting(step)
        finally:
            way.release()
        self._ended.wait(COMMIT)
        signalled(pid, signal.SIGCONT)

    def _terminate(self, step: Step) -> None:
        number = _number(step)
        worker = self._crew.members[number]
        if not complete(worker, self._agents()):
            raise Missed
        self._crew.end(worker)
        self._crew.restart(number)

    def _join_and_leave(self, step: Step) -> None:
        guest = self._crew.guest(step.detail)
        guest.wait("worker.running", timeout=60.0)
        with suppress(TimeoutError):
            guest.wait("partition.claimed", timeout=5.0)
        self._lasting(step)
        self._crew.end(guest)

    # -- servers -------------------------------------------------------------------------------------------------------

    def _kill_broker(self, step: Step) -> None:
        servers = self._field.cluster.servers
        server = servers[int(step.at * 1000) % len(servers)]
        server.kill9()
        self._lasting(step)
        server.restart(120.0)

    def _kill_store(self, step: Step) -> None:
        server = self._field.store
        assert server is not None
        server.kill9()
        self._lasting(step)
        server.restart(120.0)

    def _roll_brokers(self, step: Step) -> None:
        """Each in turn, with its leaders handed over first, as an upgrade does."""
        for server in self._field.cluster.servers:
            server.stop(60.0)
            server.restart(120.0)

    def _move_leaders(self, step: Step) -> None:
        try:
            moved = self._field.cluster.prefer_first_leaders()
        except KafkaException as error:  # a broker that is going down may have been asked
            raise Missed from error
        if not moved:
            raise Missed

    # -- the network ---------------------------------------------------------------------------------------------------

    def _reset(self, step: Step) -> None:
        if not any(proxy.connections for proxy in self._field.link(step.target)):
            raise Missed
        self._field.on_link(step.target, lambda proxy: proxy.reset())

    def _half_open(self, step: Step) -> None:
        """Connections stay, and nothing comes through; what was held is lost with them."""
        self._field.on_link(step.target, lambda proxy: (proxy.hold("to-server"), proxy.hold("to-client")))
        self._lasting(step)
        self._field.on_link(step.target, lambda proxy: (proxy.reset(), proxy.release()))

    def _one_way(self, step: Step) -> None:
        """What was held arrives late, whatever happened meanwhile."""
        direction = "to-server" if step.detail == "to-server" else "to-client"
        self._field.on_link(step.target, lambda proxy: proxy.hold(direction))
        self._lasting(step)
        self._field.on_link(step.target, lambda proxy: proxy.release())

    def _two_way(self, step: Step) -> None:
        """Nothing comes through, and then all of it: packets that were lost are sent again."""
        self._field.on_link(step.target, lambda proxy: (proxy.hold("to-server"), proxy.hold("to-client")))
        self._lasting(step)
        self._field.on_link(step.target, lambda proxy: proxy.release())

    def _unanswered(self, step: Step) -> None:
        """The server does what it is asked, and no reply ever comes."""
        self._field.on_link(step.target, lambda proxy: proxy.drop_replies())
        self._lasting(step)
        self._field.on_link(step.target, lambda proxy: (proxy.reset(), proxy.release()))

    def _latency(self, step: Step) -> None:
        self._field.on_link(step.target, lambda proxy: proxy.delay(float(step.detail)))
        self._lasting(step)
        self._field.on_link(step.target, lambda proxy: proxy.delay(0.0))

    def _bandwidth(self, step: Step) -> None:
        self._field.on_link(step.target, lambda proxy: proxy.slow(float(step.detail)))
        self._lasting(step)
        self._field.on_link(step.target, lambda proxy: proxy.slow(0.0))

    def _corruption(self, step: Step) -> None:
        """One bit of a record's value on its way from a broker."""
        proxies = self._field.link(step.target)
        before = sum(proxy.spoiled for proxy in proxies)
        self._field.on_link(step.target, lambda proxy: proxy.spoil("to-client", b'{"v": '))
        self._lasting(step)
        self._field.on_link(step.target, lambda proxy: proxy.spoil("to-client", b"", 0))
        if sum(proxy.spoiled for proxy in proxies) == before:
            raise Missed

    # -- the machine ---------------------------------------------------------------------------------------------------

    def _clock(self, step: Step) -> None:
        self._crew.clock(_number(step), float(step.detail))
        self._lasting(step)
        self._crew.clock(_number(step), 0.0)

    def _disk_full(self, step: Step) -> None:
        """No file of the workers may grow, nor be written behind its first pages."""
        limited = [
            pid for worker in self._crew.members for pid in _children(worker.process.pid) if limit_files(pid, SMALL)
        ]
        if not limited:
            raise Missed
        self._lasting(step)
        for pid in limited:
            limit_files(pid, resource.RLIM_INFINITY)

    def _power_loss(self, step: Step) -> None:
        """All workers are killed, and the file of the store is as it was when it was last synced."""
        disk, members = self._field.disk, range(len(self._crew.members))
        assert disk is not None
        with ExitStack() as stack:
            for lock in self._crew.locks:
                if not lock.acquire(timeout=5.0):
                    raise Missed
                stack.callback(lock.release)
            writers = [worker for worker in self._field.scene.workers if worker.process.poll() is None]
            if len(writers) > len(members):  # a guest
                raise Missed
            children = [pid for worker in writers for pid in _children(worker.process.pid)]
            for worker in writers:
                worker.kill9()
            for pid in children:
                signalled(pid, signal.SIGKILL)
            try:
                disk.lose_power()
            finally:
                for number in members:
                    self._crew.restart(number)

    def _slow_disk(self, step: Step) -> None:
        assert self._field.disk is not None
        self._field.disk.slow(float(step.detail))
        self._lasting(step)
        self._field.disk.slow(0.0)

    def _failing_disk(self, step: Step) -> None:
        """What is synced fails with EIO."""
        disk = self._field.disk
        assert disk is not None
        before = disk.failed
        disk.fail()
        self._lasting(step)
        disk.fail(False)
        if disk.failed == before:
            raise Missed


def _number(step: Step) -> int:
    return int(step.target.rpartition("-")[2])


def _children(pid: int) -> list[int]:
    with suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def limit_files(pid: int, size: int) -> bool:
    """Set the largest size of a file that this process may write; False when it is gone."""
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    except ProcessLookupError:
        return False
    return True
