"""Early results and deadlines from the data, on a real broker and a real store, with workers that are killed: no result
is lost, none differs from what the records give, and each has one id."""

import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer

from sluicegate.streams.contracts import headers
from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.outputs import taken
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run, patch_processes
from tests.waiting import wait_until

RECORDS, KEYS, KILLS = 3_000, 7, 4
COUNT, EARLY = 50, 10
FILE = (
    HEAD
    + """\
agents:
  counted:
    from: NS-in
    aggregate: {count: 50, timeout: 10m, compute: {total: {sum: n}}}
    emit: {count: 10}
    to: {topic: NS-counted}
  timed:
    from: NS-in
    aggregate: {timeout: 3s, compute: {total: {sum: n}}}
    emit: {every: 200ms}
    to: {topic: NS-timed}
  promised:
    from: NS-in
    aggregate: {timeout: {after: sla, first: 10m}, compute: {total: {sum: n}}}
    to: {topic: NS-promised}
  due:
    from: NS-in
    aggregate: {timeout: {at: due, unit: s, first: 10m}, compute: {total: {sum: n}}}
    to: {topic: NS-due}
  changed:
    from: NS-in
    aggregate: {count: 50, timeout: 10m, compute: {total: {sum: n}, greatest: {max: n}}}
    emit: {on: change}
    to: {topic: NS-changed}
"""
)
TOPICS = ("counted", "changed", "timed", "promised", "due")


class Result(NamedTuple):
    """`group` is the offset of the first record."""

    group: int
    revision: int
    count: int
    total: int
    final: bool


class Topic:
    """The results of a topic by their ids, so that copies after a kill count once."""

    def __init__(self, kafka: str, name: str) -> None:
        self.consumer: Consumer = reader(kafka, name)
        self.messages: dict[bytes, Message] = {}

    def read(self) -> int:
        return taken(self.consumer, self.messages)

    def results(self) -> dict[str, list[Result]]:
        """By key, in the order of the groups and their revisions."""
        results: defaultdict[str, list[Result]] = defaultdict(list)
        for message in self.messages.values():
            named, value = dict(message.headers()), json.loads(message.value())
            revision, final = value.get("revision", 1), value.get("final", True)
            assert named.get(headers.REVISION, b"1") == str(revision).encode()
            assert named.get(headers.FINAL, b"true") == json.dumps(final).encode()
            numbers = revision, value["count"], value["total"], final
            results[message.key().decode()].append(Result(int(named[headers.FIRST].rpartition(b"/")[2]), *numbers))
        return {key: sorted(of_key) for key, of_key in results.items()}

    def read_records(self) -> int:
        """How many records the last results have."""
        self.read()
        return sum(result.count for of_key in self.results().values() for result in of_key if result.final)


def numbers_of(key: int) -> list[int]:
    return [*range(key, RECORDS, KEYS)]


def counted(numbers: list[int], early: int) -> list[tuple[int, int, int, bool]]:
    """Revision, count, total and final of each result that is sent of the records of a key, at each `early` records."""
    results = []
    for first in range(0, len(numbers), COUNT):
        group = numbers[first : first + COUNT]
        for revision, count in enumerate(range(early, len(group) + 1, early), 1):
            results.append((revision, count, sum(group[:count]), count == COUNT))
    return results


def judged(numbers: list[int], results: list[Result]) -> None:
    """The groups of a key follow each other; the results of each grow, and the last one has all of its records."""
    totals, begin = [0, *accumulate(numbers)], 0
    groups: Mapping[int, list[Result]] = {
        group: [result for result in results if result.group == group]
        for group in sorted({result.group for result in results})
    }
    for group in groups.values():
        assert [result.revision for result in group] == [*range(1, len(group) + 1)]
        assert [result.final for result in group] == [False] * (len(group) - 1) + [True]
        assert all(one.count < other.count for one, other in pairwise(group[:-1]))
        assert all(one.count <= group[-1].count for one in group)
        assert [result.total for result in group] == [totals[begin + result.count] - totals[begin] for result in group]
        begin += group[-1].count
    assert begin == len(numbers)


def started(path: Path, kafka: str, ns: str, store: str) -> Run:
    create(kafka, *(f"{ns}-{name}" for name in ("in", "dead", *TOPICS)))
    path.write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store))
    return Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(path))


def send(kafka: str, ns: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    for number in numbers:
        value = {"n": number, "sla": f"{1 + number % 3}s", "due": time.time() + 1 + number % 3}
        producer.produce(f"{ns}-in", json.dumps(value), key=f"k{number % KEYS}")
    assert producer.flush(20) == 0


def kill(run: Run) -> None:
    for line in run.events("worker.started"):
        with suppress(ProcessLookupError):
            os.kill(line["pid"], signal.SIGKILL)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "redis_url", "postgres_url"])
def test_results_are_exact_although_workers_are_killed(
    tmp_path: Path, kafka: str, ns: str, store: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}" if store == "sqlite" else request.getfixturevalue(store)
    run = started(tmp_path / "app.yaml", kafka, ns, url)
    topics = [Topic(kafka, f"{ns}-{name}") for name in TOPICS]
    by_count, by_change, *by_clock = topics
    try:
        for begin in range(0, RECORDS, RECORDS // KILLS):
            known = {topic: len(topic.messages) for topic in topics}
            send(kafka, ns, range(begin, begin + RECORDS // KILLS))
            wait_until(lambda known=known: all(topic.read() > known[topic] for topic in topics), 60, "more results")
            kill(run)
        for topic in by_clock:
            wait_until(lambda topic=topic: topic.read_records() >= RECORDS, 60, "the last results of all records")
        wanted = {
            topic: {f"k{key}": counted(numbers_of(key), early) for key in range(KEYS)}
            for topic, early in ((by_count, EARLY), (by_change, 1))
        }
        for topic, results in wanted.items():
            many = sum(map(len, results.values()))
            wait_until(lambda topic=topic, many=many: topic.read() >= many, 60, "the results of all counts")
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
        assert len(run.events("worker.ended", code=-9)) >= KILLS
        for topic in topics:
            wait_until(lambda topic=topic: len(topic.messages) == topic.read(), 20, "what is left")
    finally:
        run.close()
        for topic in topics:
            topic.consumer.close()
    for topic, every in wanted.items():
        assert {key: [result[1:] for result in results] for key, results in topic.results().items()} == every
    for topic in by_clock:
        results = topic.results()
        for key in range(KEYS):
            judged(numbers_of(key), results[f"k{key}"])
    assert any(not result.final for of_key in by_clock[0].results().values() for result in of_key)


def test_the_results_differ_if_a_restored_group_does_not_know_its_early_ones(
    tmp_path: Path, kafka: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from sluicegate.streams.aggregation.durable import changelog\nchangelog._chosen = lambda *_: {}\n"
    patch_processes(tmp_path, monkeypatch, text)
    run = started(tmp_path / "app.yaml", kafka, ns, f"sqlite:///{tmp_path / 'state.db'}")
    by_count = Topic(kafka, f"{ns}-counted")
    try:
        send(kafka, ns, range(KEYS * COUNT // 2))
        wait_until(lambda: by_count.read() == 2 * KEYS, 60, "the first results")
        kill(run)
        send(kafka, ns, range(KEYS * COUNT // 2, KEYS * COUNT))
        wait_until(lambda: by_count.read_records() == KEYS * COUNT, 60, "the last results")
    finally:
        run.close()
        by_count.consumer.close()
    last = [result.revision for results in by_count.results().values() for result in results if result.final]
    assert max(last) < COUNT // EARLY
