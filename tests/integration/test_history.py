"""`history` over a real broker, while workers are killed: each group that ended has one result or one message of the
history, and the shadow that reads it finds all identical."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Message, Producer

from tests.bench.load import create
from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.waiting import wait_until

SLUICEGATE = str(Path(sys.executable).with_name("sluicegate"))
RECORDS, KEYS, KILLS = 6_000, 23, 6
FILE = """\
app: NS
kafka: {bootstrap.servers: "KAFKA", session.timeout.ms: 6000}
store: "STORE"
accept_level: volatile
auto_migrate: true
http: {port: 0}
agents:
  handled:
    from: NS-in
    aggregate: {count: 7, timeout: {after: 2s}, compute: {total: {sum: n}}}
    handler: history_handlers:total
    SESSION
    history: NS-handled-ended
    dead_letters: NS-handled-dead
    to: {topic: NS-handled}
  discarded:
    from: NS-in
    aggregate: {count: 7, timeout: {after: 2s}, on_timeout: discard, compute: {total: {sum: n}}}
    history: NS-discarded-ended
    dead_letters: NS-discarded-dead
    to: {topic: NS-discarded}
"""
AGENTS = {"handled": ("ended",), "discarded": ("ended", "")}
"""Whose groups end in these topics."""
HANDLERS = """\
from typing import Any

def total(batch: Any, send: Any) -> None:
    send({"total": batch.value["total"]})
"""


class Told(NamedTuple):
    """What a message says of a group that ended."""

    key: bytes
    place: str
    first: int
    last: int
    count: int


class Input:
    """Gives records, and knows the place of each."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._producer, self._topic, self._given = (
            Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 5}),
            topic,
            0,
        )
        self.offsets: defaultdict[tuple[bytes, str], list[int]] = defaultdict(list)

    def give(self, count: int) -> None:
        def arrived(error: Any, message: Message) -> None:
            assert error is None
            self.offsets[message.key(), f"{self._topic}/{message.partition()}"].append(message.offset())

        for number in range(self._given, self._given + count):
            value = json.dumps({"n": number})
            self._producer.produce(self._topic, value, key=f"k{number % KEYS}".encode(), on_delivery=arrived)
        assert self._producer.flush(60) == 0
        self._given += count


def problems(groups: list[Told], offsets: dict[tuple[bytes, str], list[int]]) -> list[str]:
    """What is wrong with the groups that ended. All must have ended."""
    complaints = []
    taken: Counter[tuple[str, int]] = Counter()
    for key, place, first, last, count in groups:
        within = [offset for offset in offsets[key, place] if first <= offset <= last]
        taken.update((place, record) for record in within)
        if (len(within), within[:1], within[-1:]) != (count, [first], [last]):
            complaints.append(f"{key!r} {place} {first} to {last}: {count} records, the input has {len(within)}")
    every = [(place, entry) for (_, place), some in offsets.items() for entry in some]
    return complaints + [f"record {number} is in {taken[number]} groups" for number in every if taken[number] != 1]


class Tap:
    """The messages about the groups of one agent, repeats by their row left out."""

    def __init__(self, kafka: str, ns: str, agent: str) -> None:
        self._readers = [reader(kafka, "-".join(filter(None, (ns, agent, kind)))) for kind in AGENTS[agent]]
        self._rows: dict[tuple[bytes, bytes], Told] = {}
        self.messages: list[Message] = []

    def known(self) -> list[Told]:
        return list(self._rows.values())

    def told(self) -> list[Told]:
        for consumer in self._readers:
            for message in consumer.consume(5_000, 0.2):
                headers = dict(message.headers())
                first, last = (headers[f"sluicegate-{name}"].decode().rpartition("/") for name in ("first", "last"))
                group = Told(message.key(), first[0], int(first[2]), int(last[2]), int(headers["sluicegate-count"]))
                row = headers["sluicegate-shard"], headers["sluicegate-seq"]
                if row not in self._rows:
                    self.messages.append(message)
                self._rows[row] = group
        return self.known()

    def close(self) -> None:
        for consumer in self._readers:
            consumer.close()


def newest(run: Run, agent: str) -> int:
    """The process of the agent."""
    return int(run.events("worker.started", agent=agent)[-1]["pid"])


def ran(*command: str) -> dict[str, Any]:
    done = subprocess.run([SLUICEGATE, *command, "--json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def killed(run: Run, source: Input, taps: dict[str, Tap], chance: random.Random) -> None:
    """Give all records, kill a worker after each portion, and wait until all groups have ended."""
    run.wait("partition.claimed", 2)
    for number in range(KILLS):
        source.give(RECORDS // KILLS)
        before = {agent: len(tap.told()) for agent, tap in taps.items()}
        wait_until(
            lambda before=before: all(len(tap.told()) > before[agent] for agent, tap in taps.items()),
            60,
            "groups of both agents",
        )
        os.kill(newest(run, chance.choice([*AGENTS])), signal.SIGKILL)
        run.wait("worker.started", 3 + number)
    for agent, tap in taps.items():
        wait_until(lambda tap=tap: sum(group.count for group in tap.told()) >= RECORDS, 60, f"all groups of {agent}")
    run.signal(signal.SIGTERM)
    assert run.exit_code(40) == 0


@pytest.mark.parametrize(("store", "session"), [("sqlite", ""), ("postgres_url", "    session: true\n")])
def test_each_group_that_ended_has_one_message_though_workers_are_killed(
    request: pytest.FixtureRequest, tmp_path: Path, kafka: str, ns: str, store: str, session: str
) -> None:
    create(kafka, f"{ns}-in", *(f"{ns}-{agent}{end}" for agent in AGENTS for end in ("", "-ended", "-dead")))
    url = f"sqlite:///{tmp_path / 'state.db'}" if store == "sqlite" else request.getfixturevalue(store)
    text = FILE.replace("    SESSION\n", session).replace("NS", ns).replace("KAFKA", kafka).replace("STORE", url)
    file = tmp_path / "app.yaml"
    file.write_text(text)
    (tmp_path / "history_handlers.py").write_text(HANDLERS)
    source, taps = Input(kafka, f"{ns}-in"), {agent: Tap(kafka, ns, agent) for agent in AGENTS}
    run = Run(SLUICEGATE, "run", str(file))
    try:
        killed(run, source, taps, random.Random(ns))
    finally:
        run.close()
        for tap in taps.values():
            tap.told()
            tap.close()
    for agent, tap in taps.items():
        assert problems(tap.known(), source.offsets) == [], agent
        output = ran("replay", str(file), agent, "--shadow", "--from", "earliest")
        assert (output["records"], output["identical"]) == (RECORDS, len(tap.messages))
        assert not any(output[name] for name in ("changed", "missing", "extra", "uncertain"))
    message = next(
        message for message in taps["handled"].messages if dict(message.headers())["sluicegate-reason"] == b"count"
    )
    answer = ran("explain", str(file), dict(message.headers())["sluicegate-id"].decode())
    assert (len(answer["offsets"]), answer["complete"]) == (7, True)
