"""Each kind of fault: a function that does it to its target and returns when it is over. Raises Missed when nothing was
hit."""

import resource
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import psutil
from confluent_kafka import KafkaException

from tests.soak.crew import child, complete, signalled
from tests.soak.field import Field
from tests.soak.plan import Step

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
            "terminate": self._terminate,
            "join-and-leave": self._join_and_leave,
            "kill-broker": self._kill_broker,
            "kill-store": self._kill_store,
            "roll-brokers": self._roll_brokers,
            "move-leaders": self._move_leaders,
            "reset": self._reset,
            "half-open": self._half_open,
            "one-way": self._one_way,
            "latency": self._latency,
            "bandwidth": self._bandwidth,
            "corruption": self._corruption,
            "clock": self._clock,
            "disk-full": self._disk_full,
        }

    def _lasting(self, step: Step) -> None:
        self._ended.wait(step.seconds)

    # -- processes -----------------------------------------------------------------------------------------------------

    def _kill_child(self, step: Step) -> None:
        if not signalled(child(self._crew.members[_number(step)], step.detail), signal.SIGKILL):
            raise Missed

    def _kill_worker(self, step: Step) -> None:
        number = _number(step)
        if not complete(self._crew.members[number]):
            raise Missed
        self._crew.members[number].kill9()
        self._crew.restart(number)

    def _pause(self, step: Step) -> None:
        pid = child(self._crew.members[_number(step)], step.detail)
        if not signalled(pid, signal.SIGSTOP):
            raise Missed
        self._lasting(step)
        signalled(pid, signal.SIGCONT)

    def _terminate(self, step: Step) -> None:
        number = _number(step)
        worker = self._crew.members[number]
        if not complete(worker):
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


def _number(step: Step) -> int:
    return int(step.target.rpartition("-")[2])


def _children(pid: int) -> list[int]:
    with suppress(psutil.NoSuchProcess):
        return [each.pid for each in psutil.Process(pid).children()]
    return []


def limit_files(pid: int, size: int) -> bool:
    """Set the largest size of a file that this process may write; False when it is gone."""
    try:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    except ProcessLookupError:
        return False
    return True
