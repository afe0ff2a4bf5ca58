"""What was sent and what a consumer read become the history that the docstring of the workloads says."""

import json
from collections.abc import Sequence
from typing import Any

from tests.chaos.record import Seen
from tests.histories.checker.history import Append, Read
from tests.histories.history_handlers import AFTER
from tests.histories.run import judge
from tests.histories.workloads import LENGTH, OPEN, PARTITIONS, Lists, Queue, Sent, Workload, history


def result(topic: str, number: int, value: dict[str, Any], shard: str = "s") -> Seen:
    headers = {"sluicegate-shard": shard, "sluicegate-seq": str(number)}
    return Seen(f"histories.{topic}", 0, number, b"k", json.dumps(value).encode(), headers)


def sent(workload: Workload, count: int) -> dict[int, tuple[Sent, float]]:
    return {number: (workload.record(number), 10.0 + number) for number in range(count)}


def lists(results: Sequence[tuple[str, int, list[int]]]) -> Any:
    """Of two records of one key: the results of the agents."""
    workload = Lists("histories", 1, "")
    records = {number: (workload.record(number * PARTITIONS * OPEN), 10.0 + number) for number in range(2)}
    numbered = {record.number: (record, at) for record, at in records.values()}
    values = [
        (topic, place, {"newest": element, "all": elements}) for place, (topic, element, elements) in enumerate(results)
    ]
    return history(workload, numbered, [(result(*value), 20.0 + value[1]) for value in values])


SECOND = PARTITIONS * OPEN
WHOLE = [("out", 0, [0]), ("out", SECOND, [0, SECOND]), ("further", 0, [0]), ("further", SECOND, [0, SECOND])]


def test_each_record_is_a_transaction_of_each_agent() -> None:
    made = lists(WHOLE)
    assert [one.operations for one in made.transactions[:2]] == [
        (Append("out:0.0.0", 0), Read("out:0.0.0", (0,))),
        (Append("out:0.0.0", SECOND), Read("out:0.0.0", (0, SECOND))),
    ]
    assert [(one.begin, one.end) for one in made.transactions[:2]] == [(10.0, 20.0), (11.0, 21.0)]
    assert len(made.transactions) == 4
    assert judge(made) == []


def test_a_record_without_a_result_is_lost() -> None:
    made = lists(WHOLE[:3])
    assert made.transactions[-1].outcome == "info"
    assert {anomaly.kind for anomaly in judge(made)} == {"lost"}


def test_a_second_result_of_a_record_is_a_second_read() -> None:
    made = lists([*WHOLE, ("out", 0, [0, SECOND, 0])])
    assert {anomaly.kind for anomaly in judge(made)} >= {"repeated", "duplicate-elements"}


def test_a_list_that_begins_anew_is_found() -> None:
    made = lists([WHOLE[0], ("out", SECOND, [SECOND]), *WHOLE[2:]])
    assert "incompatible-order" in {anomaly.kind for anomaly in judge(made)}


def test_a_key_has_as_many_records_as_complete_its_group() -> None:
    workload = Lists("histories", 1, "")
    keys = [workload.record(number).key for number in range(PARTITIONS * OPEN * LENGTH * 2)]
    assert {keys.count(key) for key in keys} == {LENGTH}


def test_a_timeout_may_not_come_before_its_time() -> None:
    workload = Queue("histories", 1, "")
    records = sent(workload, 1)
    outputs = [result("out", place, {"e": name}) for place, name in enumerate(["0a", "0b", "0!"])]
    right = history(workload, records, [(output, 10.0 + AFTER) for output in outputs])
    early = history(workload, records, [(output, 10.1) for output in outputs])
    assert judge(right) == []
    assert [anomaly.kind for anomaly in judge(early)] == ["early"]
