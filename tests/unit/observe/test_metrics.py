"""The list of metrics, the meter, and their text for Prometheus."""

import json
import re

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families as families

from sluicegate.streams.observe.board import Board
from sluicegate.streams.observe.collector import exposition
from sluicegate.streams.observe.metrics import METRICS, Meter
from sluicegate.streams.observe.report import PartitionReport, WorkerReport


def text_of(*reports: WorkerReport, own: Meter | None = None) -> str:
    board = Board(lambda: 0.0)
    for report in reports:
        board.expect((report.agent, report.worker), report.pid)
        board.put(report)
    return exposition(board, own or Meter()).decode()


def report_of(meter: Meter, agent: str = "a", worker: int = 0, **fields: object) -> WorkerReport:
    samples = json.loads(json.dumps(meter.snapshot()))
    return WorkerReport(agent, worker, 7, 0.0, True, metrics=samples, **fields)


def values(text: str) -> dict[str, float]:
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if not line.startswith("#")
    }


def test_every_metric_has_one_name_a_meaning_and_no_key_label() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"[a-z][a-z_]+[a-z]", metric.name)
        assert metric.meaning.endswith(".")
        assert "key" not in metric.labels
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(metric.buckets)


def test_every_metric_of_the_list_is_exposed_even_without_values() -> None:
    names = {family.name for family in families(text_of())}
    assert names == {"sluicegate_" + metric.name for metric in METRICS}


def test_counts_add_up_per_label() -> None:
    meter = Meter()
    meter.count("fires", reason="count")
    meter.count("fires", 4, reason="count")
    meter.count("fires", reason="timeout")
    samples = values(text_of(report_of(meter)))
    assert samples['sluicegate_fires_total{agent="a",reason="count",worker="0"}'] == 5
    assert samples['sluicegate_fires_total{agent="a",reason="timeout",worker="0"}'] == 1


def test_the_workers_of_all_agents_stand_side_by_side() -> None:
    one, two = Meter(), Meter()
    one.count("claims", 2)
    two.count("claims", 3)
    samples = values(text_of(report_of(one, "a", 0), report_of(two, "a", 1), report_of(two, "b", 0)))
    assert samples['sluicegate_claims_total{agent="a",worker="0"}'] == 2
    assert samples['sluicegate_claims_total{agent="a",worker="1"}'] == 3
    assert samples['sluicegate_claims_total{agent="b",worker="0"}'] == 3


def test_a_histogram_counts_each_value_below_its_bound() -> None:
    meter = Meter()
    for size in (1, 2, 10, 10_001):
        meter.observe("batch_records", size)
    meter.observe("batch_records", 100, times=5)
    samples = values(text_of(report_of(meter)))
    bucket = 'sluicegate_batch_records_bucket{agent="a",le="%s",worker="0"}'
    assert [samples[bucket % bound] for bound in ("1.0", "10.0", "50.0", "100.0", "10000.0", "+Inf")] == [
        1,
        3,
        3,
        8,
        8,
        9,
    ]
    assert samples['sluicegate_batch_records_count{agent="a",worker="0"}'] == 9
    assert samples['sluicegate_batch_records_sum{agent="a",worker="0"}'] == 1 + 2 + 10 + 10_001 + 500


def test_the_gauges_of_a_partition_come_from_its_report() -> None:
    row = PartitionReport(
        "t", 3, "running", 90, 100, groups=4, bytes=50, oldest=12.5, next_deadline=-1.5, unsent=6, unsent_age=2.0
    )
    row = structs.replace(row, read_age=7.5)
    samples = values(text_of(report_of(Meter(), partitions=[row])))
    where = '{agent="a",partition="3",topic="t",worker="0"}'
    expected = {
        "open_groups": 4,
        "buffered_bytes": 50,
        "oldest_group_age_seconds": 12.5,
        "next_deadline_lag_seconds": 1.5,
        "outbox_pending": 6,
        "outbox_oldest_pending_age_seconds": 2.0,
        "consumer_lag_records": 10,
        "consumer_lag_seconds": 7.5,
    }
    assert {name: samples[f"sluicegate_{name}{where}"] for name in expected} == expected


def test_a_deadline_to_come_is_no_lag_and_an_unknown_end_no_consumer_lag() -> None:
    samples = values(
        text_of(report_of(Meter(), partitions=[PartitionReport("t", 0, "running", offset=9, next_deadline=5.0)]))
    )
    assert samples['sluicegate_next_deadline_lag_seconds{agent="a",partition="0",topic="t",worker="0"}'] == 0
    assert not [name for name in samples if "consumer_lag" in name]


def test_the_ages_of_a_worker_that_is_silent_go_on_and_its_deadline_passes() -> None:
    row = PartitionReport("t", 3, "running", 90, 100, oldest=12.5, next_deadline=8.0, unsent_age=2.0, read_age=7.5)
    report, clock = report_of(Meter(), partitions=[row]), [4.0]
    board = Board(lambda: clock[0])
    board.expect(("a", 0), report.pid)
    board.put(report)
    where = 'sluicegate_%s{agent="a",partition="3",topic="t",worker="0"}'
    names = ("next_deadline_lag_seconds", "oldest_group_age_seconds", "outbox_oldest_pending_age_seconds")
    names += ("consumer_lag_seconds",)
    now = values(exposition(board, Meter()).decode())
    assert [now[where % name] for name in names] == [0, 12.5, 2.0, 7.5]
    clock[0] = 10.0
    later = values(exposition(board, Meter()).decode())
    assert [later[where % name] for name in names] == [2, 22.5, 12.0, 17.5]


def test_a_worker_is_ready_as_readyz_says() -> None:
    board = Board(lambda: 0.0)
    board.phase("running")
    for agent, ready in (("good", True), ("bad", False)):
        board.expect((agent, 0), 7)
        board.put(WorkerReport(agent, 0, 7, 0.0, ready))
    board.expect(("new", 0), 8)
    board.expect(("ended", 0), None)
    samples = values(exposition(board, Meter()).decode())
    expected = {"good": 1, "bad": 0, "new": 0, "ended": 0}
    assert {agent: samples[f'sluicegate_ready{{agent="{agent}",worker="0"}}'] for agent in expected} == expected


def test_at_the_end_of_its_partition_nobody_lags_however_old_the_last_record_is() -> None:
    row = PartitionReport("t", 0, "running", offset=9, high=9, read_age=500.0)
    samples = values(text_of(report_of(Meter(), partitions=[row])))
    assert samples['sluicegate_consumer_lag_seconds{agent="a",partition="0",topic="t",worker="0"}'] == 0


def test_the_level_and_the_halted_partitions_are_gauges() -> None:
    rows = [PartitionReport("t", 0, "halted", error="store-wiped"), PartitionReport("t", 1, "running")]
    samples = values(text_of(report_of(Meter(), partitions=rows, level=("lossy", ["appendfsync everysec"]))))
    assert samples['sluicegate_halted_partitions{agent="a",worker="0"}'] == 1
    levels = {
        name: samples[f'sluicegate_level{{agent="a",level="{name}",worker="0"}}']
        for name in ("durable", "lossy", "volatile")
    }
    assert levels == {"durable": 0, "lossy": 1, "volatile": 0}


def test_the_supervisors_own_metrics_have_only_their_own_labels() -> None:
    own = Meter()
    own.set("build_info", 1, version="1.2")
    own.count("worker_restarts", agent="a", worker="2")
    samples = values(text_of(own=own))
    assert samples == {
        'sluicegate_build_info{version="1.2"}': 1,
        'sluicegate_worker_restarts_total{agent="a",worker="2"}': 1,
    }


@pytest.mark.parametrize(
    ("method", "name", "labels"),
    [
        ("count", "recordz_consumed", {}),
        ("count", "commit_seconds", {}),
        ("count", "fires", {}),
        ("count", "fires", {"reason": "count", "key": "UA"}),
        ("count", "claims", {"topic": "t"}),
        ("observe", "claims", {}),
        ("set", "claims", {}),
        ("set", "open_groups", {"topic": "t", "partition": "0"}),
    ],
)
def test_what_the_list_does_not_have_is_refused_at_once(method: str, name: str, labels: dict[str, str]) -> None:
    meter = Meter()
    with pytest.raises(ValueError, match=name):
        getattr(meter, method)(name, 1, **labels)
    assert meter.snapshot() == []


def test_a_snapshot_does_not_change_with_the_meter() -> None:
    meter = Meter()
    meter.observe("commit_seconds", 0.1)
    before = meter.snapshot()
    frozen = json.dumps(before)
    meter.observe("commit_seconds", 0.1)
    assert json.dumps(before) == frozen
