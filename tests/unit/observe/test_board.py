"""What follows from the workers' reports: alive, ready, status."""

from sluicegate.streams.observe.board import TURN_LIMIT, Board
from sluicegate.streams.observe.report import PartitionReport, WorkerReport


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def report(pid: int = 7, turned: float = 1000.0, ready: bool = True, **fields: object) -> WorkerReport:
    return WorkerReport("a", 0, pid, turned, ready, **fields)


def running(clock: Clock) -> Board:
    board = Board(clock)
    board.phase("running")
    board.expect(("a", 0), 7)
    return board


def test_it_is_ready_when_all_expected_workers_are() -> None:
    board = running(Clock())
    assert board.unready() == [{"agent": "a", "worker": 0, "reason": "starting"}]
    board.put(report())
    assert board.unready() == []
    board.expect(("b", 0), 8)
    assert board.unready() == [{"agent": "b", "worker": 0, "reason": "starting"}]


def test_it_is_never_ready_before_and_after_it_runs() -> None:
    board = Board(Clock())
    assert board.unready() == [{"reason": "starting"}]
    board.phase("stopping")
    assert board.unready() == [{"reason": "stopping"}]


def test_a_worker_says_why_it_is_not_ready() -> None:
    board = running(Clock())
    board.put(report(ready=False, reasons=["restoring t/0", "restoring t/1"]))
    assert [reason["reason"] for reason in board.unready()] == ["restoring t/0", "restoring t/1"]


def test_the_report_of_an_earlier_process_is_not_believed() -> None:
    board = running(Clock())
    board.put(report(pid=6))
    assert board.reports() == []
    board.put(report())
    board.expect(("a", 0), None)
    assert board.reports() == []
    assert board.unready() == [{"agent": "a", "worker": 0, "reason": "waiting to be started again"}]


def test_a_loop_that_stands_still_is_not_alive() -> None:
    clock = Clock()
    board = running(clock)
    board.put(report(turned=1000.0))
    clock.now += TURN_LIMIT
    assert board.stuck() == []
    clock.now += 1
    assert [stuck["agent"] for stuck in board.stuck()] == ["a"]
    assert "not turned" in board.unready()[0]["reason"]
    board.put(report(turned=clock.now))
    assert board.stuck() == []


def test_a_worker_that_never_reports_is_not_alive_either() -> None:
    clock = Clock()
    board = running(clock)
    clock.now += TURN_LIMIT + 1
    assert [stuck["agent"] for stuck in board.stuck()] == ["a"]


def test_a_worker_that_waits_for_its_restart_does_not_count_as_stuck() -> None:
    clock = Clock()
    board = running(clock)
    board.expect(("a", 0), None)
    clock.now += TURN_LIMIT + 1
    assert board.stuck() == []


def test_the_status_holds_every_partition_and_its_lag() -> None:
    clock = Clock()
    board = running(clock)
    halted = PartitionReport("t", 0, "halted", offset=3, high=10, error="store-wiped", detail="Kafka knows offset 3")
    board.put(report(partitions=[halted, PartitionReport("t", 1, "claiming")], level=("lossy", ["everysec"])))
    clock.now += 2
    status = board.status()
    assert (status["phase"], status["ready"]) == ("running", True)
    worker = status["workers"][0]
    assert (worker["pid"], worker["seconds"], worker["turned"]) == (7, 2.0, 2.0)
    assert worker["level"] == {"name": "lossy", "reasons": ["everysec"]}
    assert [(row["number"], row["state"], row["error"], row["lag"]) for row in worker["partitions"]] == [
        (0, "halted", "store-wiped", 7),
        (1, "claiming", None, None),
    ]


def test_the_status_of_a_worker_that_is_not_there_says_so() -> None:
    board = running(Clock())
    board.expect(("a", 0), None)
    (worker,) = board.status()["workers"]
    assert (worker["pid"], worker["ready"], worker["reasons"]) == (None, False, ["waiting to be started again"])
    assert worker["partitions"] == []
