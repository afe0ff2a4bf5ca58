"""Reports from a worker's process to its supervisor, over a pipe that never holds the worker up."""

import os
import threading

import pytest

from sluicegate.streams.calling.backoff import Backoff
from sluicegate.streams.observe.report import PartitionReport, WorkerReport
from sluicegate.streams.processes.channel import ReportSender, pipe, received
from tests.waiting import wait_until

Ends = tuple[int, int]


@pytest.fixture
def ends() -> Ends:
    """Each test closes both, once: their numbers are somebody else's at once."""
    return pipe()


def report(number: int, partitions: int = 1) -> WorkerReport:
    rows = [PartitionReport("a-topic-with-a-name", at, "running", oldest=1.5) for at in range(partitions)]
    return WorkerReport(
        "a", number, 7, 1.0, True, partitions=rows, level=("durable", ["x"]), metrics=[("fires", ("count",), 3.0)]
    )


def test_reports_arrive_as_they_were_sent(ends: Ends) -> None:
    read, write = ends
    sender = ReportSender(write)
    assert sender.send(report(1))
    assert sender.send(report(2))
    os.close(write)
    assert [(got.worker, got.partitions[0].oldest, got.level, got.metrics) for got in received(read)] == [
        (1, 1.5, ("durable", ["x"]), [("fires", ("count",), 3.0)]),
        (2, 1.5, ("durable", ["x"]), [("fires", ("count",), 3.0)]),
    ]


def test_a_full_pipe_drops_reports_and_keeps_the_rest_whole(ends: Ends) -> None:
    read, write = ends
    sender = ReportSender(write)
    sent = []
    for number in range(1000):
        if sender.send(report(number, partitions=300)):
            sent.append(number)
    assert 0 < len(sent) < 1000
    got: list[int] = []
    reader = threading.Thread(target=lambda: got.extend(message.worker for message in received(read)))
    reader.start()
    wait_until(lambda: sender.send(report(1000)), what="room in the pipe")
    os.close(write)
    reader.join(10)
    assert got == [*sent, 1000]


def test_a_supervisor_that_is_gone_is_no_error(ends: Ends) -> None:
    read, write = ends
    sender = ReportSender(write)
    os.close(read)
    assert sender.send(report(1)) is False
    os.close(write)


def test_a_line_cut_off_by_a_kill_is_passed_over(ends: Ends) -> None:
    read, write = ends
    ReportSender(write).send(report(1))
    os.write(write, b'{"agent": "a", "wor')
    os.close(write)
    assert [got.worker for got in received(read)] == [1]


def test_the_pipe_is_not_handed_on_to_a_workers_own_children(ends: Ends) -> None:
    os.set_inheritable(ends[1], True)
    ReportSender(ends[1])
    assert os.get_inheritable(ends[1]) is False


def test_a_back_off_doubles_up_to_its_bound_and_forgets_after_a_reset() -> None:
    backoff = Backoff(first=1, most=10, random=lambda: 0.999999)
    assert [round(backoff.delay()) for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    backoff.reset()
    assert round(backoff.delay()) == 1


def test_the_jitter_of_a_back_off_takes_at_most_half() -> None:
    backoff = Backoff(first=1, most=10, random=lambda: 0.0)
    assert [backoff.delay() for _ in range(3)] == [0.5, 1.0, 2.0]
