"""`throttle`, `rate_limit` and `singleton` over two worker processes that are killed, on a real broker and a real
store: no interval has more calls than the limit, no two calls of a key run at a time, and no message is lost."""

import json
import shutil
import signal
import sys
import time
from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from sluicegate.streams.contracts import headers
from tests.bench.load import create
from tests.integration.storm_file import HEAD
from tests.integration.supervised.run import Run, patch_processes
from tests.integration.test_killed_groups import Topic, kill
from tests.waiting import wait_until

LIMIT, PER = 40, 4.0
"""A process that is paused between the look at its clock and the call does not pass the limit in a twentieth of PER."""
THROTTLED, SINGLE, LIMITED, KEYS = 300, 60, 240, 3
KILLS = 2
FILE = (
    HEAD
    + """\
agents:
  throttled:
    from: NS-in
    where: kind == "throttled"
    handler: flow_handlers:throttled
    concurrency: 8
    throttle: {limit: 40, per: 4s}
    to: {topic: NS-throttled}
  single:
    from: NS-in
    where: kind == "single"
    handler: flow_handlers:single
    concurrency: 4
    singleton: n % 3
    to: {topic: NS-single}
  limited:
    from: NS-in
    where: kind == "limited"
    handler: flow_handlers:limited
    concurrency: 4
    rate_limit: {limit: 40, per: 4s}
    to: {topic: NS-limited}
"""
)
TOPICS = ("throttled", "single", "limited", "dead")


class Call(NamedTuple):
    kind: str
    n: int
    at: float


def started(folder: Path, kafka: str, ns: str, store: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FLOW_CALLS", str(folder / "calls"))
    for name in ("in", *TOPICS):
        create(kafka, f"{ns}-{name}", partitions=4)
    shutil.copy(Path(__file__).with_name("flow_handlers.py"), folder)
    (folder / "app.yaml").write_text(FILE.replace("NS", ns).replace("KAFKA", kafka).replace("STORE", store))
    command = str(Path(sys.executable).with_name("sluicegate"))
    return Run(command, "run", str(folder / "app.yaml"), "--workers", "2")


def send(kafka: str, ns: str, kind: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 0})
    for number in numbers:
        producer.produce(f"{ns}-in", json.dumps({"n": number, "kind": kind}), key=f"{kind}{number}")
    assert producer.flush(20) == 0


def share_of_limited(part: int) -> range:
    """Those that are sent before the kill of this part, or behind the last one."""
    return range(LIMITED * part // (KILLS + 1), LIMITED * (part + 1) // (KILLS + 1))


def calls_in(folder: Path) -> list[Call]:
    lines = [line.split() for line in (folder / "calls").read_text().splitlines()]
    return [Call(kind, int(n), float(at)) for kind, n, at in lines]


def most_within(times: list[float], seconds: float) -> int:
    ordered = sorted(times)
    return max(bisect_left(ordered, at + seconds) - index for index, at in enumerate(ordered))


def overlaps(calls: list[Call]) -> list[tuple[Call, Call]]:
    """The calls of one key of which the second began before the first ended. A call without an end was killed."""
    by_message: defaultdict[int, list[Call]] = defaultdict(list)
    by_key: defaultdict[int, list[tuple[Call, float]]] = defaultdict(list)
    for call in calls:
        if call.kind != "throttled":
            by_message[call.n].append(call)
    for lines in by_message.values():
        for call, following in zip_longest(lines, lines[1:]):
            if call.kind == "single":
                ends = following.at if following is not None and following.kind == "ended" else call.at
                by_key[call.n % KEYS].append((call, ends))
    return [
        (one, other)
        for of_key in by_key.values()
        for (one, ends), (other, _) in pairwise(sorted(of_key, key=_begin))
        if ends > other.at
    ]


def _begin(call: tuple[Call, float]) -> float:
    return call[0].at


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "redis_url", "postgres_url"])
def test_limits_hold_although_workers_are_killed(
    tmp_path: Path, kafka: str, ns: str, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}" if store == "sqlite" else request.getfixturevalue(store)
    run = started(tmp_path, kafka, ns, url, monkeypatch)
    throttled, single, limited, dead = topics = [Topic(kafka, f"{ns}-{name}") for name in TOPICS]
    began = time.time()
    try:
        send(kafka, ns, "throttled", range(THROTTLED))
        send(kafka, ns, "single", range(SINGLE))
        for part in range(1, KILLS + 1):
            send(kafka, ns, "limited", share_of_limited(part - 1))
            wanted = THROTTLED * part // (KILLS + 2)
            wait_until(lambda wanted=wanted: throttled.read() >= wanted, 60, "some results")
            kill(run)
        send(kafka, ns, "limited", share_of_limited(KILLS))
        wait_until(
            lambda: limited.read() + dead.read() >= LIMITED, 90, "all results and dead letters of the rate limit"
        )
        lasted = time.time() - began
        wait_until(lambda: throttled.read() >= THROTTLED, 90, "all results")
        wait_until(lambda: single.read() >= SINGLE, 90, "all results of the singleton")
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
    finally:
        run.close()
        for topic in topics:
            topic.consumer.close()
    calls = calls_in(tmp_path)
    for topic, count in ((throttled, THROTTLED), (single, SINGLE)):
        assert sorted(json.loads(message.value())["n"] for message in topic.messages.values()) == [*range(count)]
    assert most_within([call.at for call in calls if call.kind == "throttled"], PER) <= LIMIT
    assert overlaps(calls) == []
    taken, refused = (
        [json.loads(message.value())["n"] for message in topic.messages.values()] for topic in (limited, dead)
    )
    assert sorted([*taken, *refused]) == [*range(LIMITED)]
    assert LIMIT <= len(taken) <= LIMIT * (1 + lasted // PER)
    assert {dict(message.headers())[headers.DEAD_REASON] for message in dead.messages.values()} == {b"rate-limited"}


def test_the_limit_is_passed_if_a_worker_starts_with_a_state_of_its_own(
    tmp_path: Path, kafka: str, ns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: workers do not read what others were given."""
    text = "from sluicegate.streams.flow import ledger\nstates = {}\nledger.unpacked = lambda blob: states\n"
    patch_processes(tmp_path, monkeypatch, text)
    run = started(tmp_path, kafka, ns, f"sqlite:///{tmp_path / 'state.db'}", monkeypatch)
    throttled = Topic(kafka, f"{ns}-throttled")
    try:
        send(kafka, ns, "throttled", range(THROTTLED))
        wait_until(lambda: throttled.read() >= THROTTLED // 2, 60, "some results")
    finally:
        run.close()
        throttled.consumer.close()
    times = [call.at for call in calls_in(tmp_path) if call.kind == "throttled"]
    assert most_within(times, PER) > LIMIT
