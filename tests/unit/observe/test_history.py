"""The last hour that the supervisor keeps: rates, restarts, errors, and its bounds."""

import tracemalloc

import pytest

from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.history import ERRORS, EVERY, LONGEST, MOST_BYTES, SAMPLES, SERIES, LastHour, quantile
from sluicegate.streams.observe.metrics import BY_NAME, Meter, Sample
from sluicegate.streams.observe.report import PartitionReport, WorkerReport


class HourScene:
    """One agent on a board whose history has a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.board = Board(lambda: self.now)
        self.history = LastHour(lambda: self.now)
        self.board.keep(self.history)

    def report(self, metrics: list[Sample], *partitions: PartitionReport, pid: int = 1, worker: int = 0) -> None:
        if self.board.status()["workers"] == [] or pid not in [
            worker["pid"] for worker in self.board.status()["workers"]
        ]:
            self.board.expect(("a", worker), pid)
        self.board.put(WorkerReport("a", worker, pid, self.now, True, (), partitions, None, metrics))

    def columns(self, since: float = 0.0) -> dict[str, list[float]]:
        columns: dict[str, list[float]] = self.history.document(since)["agents"]["a"]
        return columns


def metered(records: int, fires: int = 0, sent: int = 0) -> list[Sample]:
    meter = Meter()
    meter.count("records_consumed", records)
    meter.count("fires", fires, reason="count")
    meter.count("dispatch_attempts", sent, outcome="success")
    meter.count("dispatch_attempts", 99, outcome="transient")
    meter.observe("commit_seconds", 0.004, times=records)
    return meter.snapshot()


def test_a_sample_has_what_was_counted_since_the_last_one() -> None:
    scene = HourScene()
    for at, records in ((EVERY, 100), (2 * EVERY, 150), (2.5 * EVERY, 500), (3 * EVERY, 650)):
        scene.now = 1000 + at
        scene.report(metered(records, records // 10, records // 5), PartitionReport("in", 0, "running", records, 700))
    columns = scene.columns()
    assert columns["at"] == [1000 + EVERY, 1000 + 2 * EVERY, 1000 + 3 * EVERY]
    assert columns["read"] == [0, 50 / EVERY, 500 / EVERY]
    assert columns["reasons"] == {"count": [0, 5 / EVERY, 50 / EVERY]}
    assert columns["sent"] == [0, 10 / EVERY, 100 / EVERY]
    assert columns["lag"] == [600, 550, 50]
    assert columns["topics"] == {"in": 500 / EVERY}
    assert columns["commit"][0] is None
    assert 0.0025 < columns["commit"][1] < 0.005
    assert scene.columns(1000 + 2 * EVERY)["at"] == [1000 + 3 * EVERY]


def test_what_was_given_up_is_one_error_for_each_reason_at_the_time_of_the_last() -> None:
    scene = HourScene()
    for at, handler, undecodable in ((1, 0, 0), (2, 1, 0), (3, 1, 4), (4, 3, 4), (5, 3, 4)):
        scene.now = 1000 + at * EVERY
        dead = Meter()
        dead.count("records_dead", handler, reason="handler-failed")
        dead.count("records_dead", undecodable, reason="undecodable")
        scene.report(dead.snapshot(), PartitionReport("in", 0, "running", 1, 0))
    errors = [(error["at"], error["error"], error["detail"]) for error in scene.history.document(0)["errors"]]
    text = "{} given up in this run, with the reason {}: see the dead letters"
    assert errors == [
        (1000 + 4 * EVERY, "given up", text.format(3, "handler-failed")),
        (1000 + 3 * EVERY, "given up", text.format(4, "undecodable")),
    ]


def test_what_was_given_up_before_the_first_sample_counts() -> None:
    scene = HourScene()
    scene.now = 1000 + EVERY
    dead = Meter()
    dead.count("records_dead", 3, reason="undecodable")
    scene.report(dead.snapshot(), PartitionReport("in", 0, "running", 3, 0))
    (error,) = scene.history.document(0)["errors"]
    assert error["detail"] == "3 given up in this run, with the reason undecodable: see the dead letters"


def test_the_rates_of_several_outputs_are_apart() -> None:
    scene = HourScene()
    for at, large, rest in ((EVERY, 0, 0), (2 * EVERY, 10, 40)):
        scene.now = 1000 + at
        meter = Meter()
        meter.count("rows_delivered", large, topic="large")
        meter.count("rows_delivered", rest, topic="rest/of all")
        scene.report(meter.snapshot())
    assert scene.columns()["outputs"] == {"large": 10 / EVERY, "rest/of all": 40 / EVERY}


def test_a_new_process_counts_from_nothing_and_is_an_error() -> None:
    scene = HourScene()
    for at, records, pid in ((EVERY, 100, 1), (2 * EVERY, 200, 1), (3 * EVERY, 30, 2)):
        scene.now = 1000 + at
        scene.report(metered(records), pid=pid)
    assert scene.columns()["read"] == [0, 100 / EVERY, 30 / EVERY]
    assert [error["error"] for error in scene.history.document(0)["errors"]] == ["restart"]


def test_an_error_is_kept_once_and_again_when_it_comes_back() -> None:
    scene = HourScene()
    bad = PartitionReport("in", 0, "halted", error="gap", detail="x" * 5000)
    for partition in (bad, bad, PartitionReport("in", 0, "running"), bad):
        scene.now += 1
        scene.report([], partition)
    errors = scene.history.document(0)["errors"]
    assert [(error["error"], len(error["detail"])) for error in errors] == [("gap", LONGEST)] * 2
    assert errors[0]["at"] > errors[1]["at"]


def test_an_hour_is_bounded() -> None:
    scene, meter = HourScene(), Meter()
    tracemalloc.start()
    for number in range(SAMPLES + 50):
        scene.now += EVERY
        for reason in range(2 * SERIES):
            meter.count("fires", 1 + number, reason=f"reason-{reason}")
        partitions = [
            PartitionReport(f"topic-{topic}", 0, "halted", number * topic, error="e", detail=f"{number}" * LONGEST)
            for topic in range(2 * SERIES)
        ]
        scene.report(meter.snapshot(), *partitions)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    columns = scene.columns()
    assert (len(columns["at"]), columns["at"][0]) == (SAMPLES, 1000 + 51 * EVERY)
    assert (len(columns["reasons"]), len(columns["topics"])) == (SERIES, SERIES)
    assert len(scene.history.document(0)["errors"]) == ERRORS
    assert taken < MOST_BYTES


@pytest.mark.parametrize(("share", "seconds"), [(0.5, 0.00175), (1.0, 0.0025)])
def test_a_quantile_lies_within_its_bucket(share: float, seconds: float) -> None:
    counts = [0.0] * (len(BY_NAME["commit_seconds"].buckets) + 1)
    assert quantile(counts, share) is None
    counts[2] = 10
    assert quantile(counts, share) == pytest.approx(seconds)
    counts[2], counts[-1] = 0, 10
    assert quantile(counts, share) == BY_NAME["commit_seconds"].buckets[-1]
