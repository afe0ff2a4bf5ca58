"""`replay --shadow` and `plan` on the flights of the demo, which a real broker holds and a worker that was killed five
times has processed."""

import json
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from sluicegate.streams.demo.file import text
from sluicegate.streams.demo.flights import PARTITIONS, Flight, archive, flights
from tests.bench.load import create
from tests.bench.results import reader
from tests.chaos.cells import WHOLE
from tests.integration.supervised.run import Run
from tests.mutation import twins
from tests.unit.shadow.bounded import Result, Taken, figures, seconds
from tests.waiting import wait_until

KILLS = 5


@pytest.fixture(scope="module")
def every() -> Sequence[Flight]:
    return list(flights(archive()))


class Ran(NamedTuple):
    """The file that ran, and its results by their fire ids."""

    file: Path
    results: dict[bytes, Message]


def produced(producer: Producer, topic: str, portion: Sequence[Flight]) -> None:
    for flight in portion:
        while True:
            try:
                producer.produce(topic, flight.value, key=flight.carrier, partition=flight.partition)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def taken(consumer: Consumer, into: dict[bytes, Message], header: str) -> int:
    for message in consumer.consume(10_000, 0.2):
        into.setdefault(dict(message.headers())[header], message)
    return len(into)


def file_of(kafka: str, ns: str, timeout: str) -> str:
    """The demo's file with its first agent alone, and with topics of our own."""
    first_agent = text(kafka).partition("\n  carriers:")[0]
    file_text = first_agent.replace("topic: delays", f"topic: {ns}-delays").replace("flights.dead", f"{ns}-dead")
    file_text = file_text.replace("app: flights", f"app: {ns}").replace("from: flights", f"from: {ns}-flights")
    return file_text.replace("after: 3s", f"after: {timeout}") + "accept_level: volatile\nauto_migrate: true\n"


def ran(
    tmp_path: Path, kafka: str, ns: str, every: Sequence[Flight], timeout: str, *, whole: bool = True
) -> tuple[Ran, list[int]]:
    """Runs the first agent of the demo's file until each flight is in a result, in a dead letter, or in a group that
    waits for more; if not `whole`, until all dead letters are there. Also returns the processes that ran."""
    create(kafka, *(f"{ns}-{name}" for name in ("flights", "delays", "dead")))
    file = tmp_path / "flights.yaml"
    file.write_text(file_of(kafka, ns, timeout))
    # idempotence keeps the order
    producer = Producer({"bootstrap.servers": kafka, "log_level": 0, "linger.ms": 20, "enable.idempotence": True})
    outputs, letters = reader(kafka, f"{ns}-delays"), reader(kafka, f"{ns}-dead")
    results, dead = dict[bytes, Message](), dict[bytes, Message]()
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(file))
    try:
        share = -(-len(every) // (KILLS + 1))
        for number, begin in enumerate(range(0, len(every), share)):
            if number:
                known = set(results)
                # A record at which three processes in a row died becomes a dead letter (docs/protocol.md, Crash marks).
                wait_until(lambda known=known: moved(outputs, results, known), 60, "results of each partition")
                os.kill(run.pids(number)[-1], signal.SIGKILL)
            produced(producer, f"{ns}-flights", every[begin : begin + share])
        late = sum(flight.delay is None for flight in every)
        complete = sum(
            number // 100 for number in Counter(flight.carrier for flight in every if flight.delay is not None).values()
        )
        wait_until(lambda: taken(letters, dead, "sluicegate-id") >= late, 120, "all dead letters")
        if whole and timeout == "1h":
            wait_until(lambda: taken(outputs, results, "sluicegate-fire") >= complete, 120, "all results")
        elif whole:
            wait_until(lambda: flown(outputs, results) >= len(every) - late, 120, "all flights")
        run.signal(signal.SIGTERM)
        assert run.exit_code(40) == 0
    finally:
        run.close()
        outputs.close()
        letters.close()
    return Ran(file, results), [run.process.pid, *(line["pid"] for line in run.events("worker.started"))]


def moved(consumer: Consumer, results: dict[bytes, Message], known: set[bytes]) -> bool:
    """Whether each input partition has a result that is not known."""
    taken(consumer, results, "sluicegate-fire")
    new = [dict(message.headers())["sluicegate-first"] for fire, message in results.items() if fire not in known]
    return len({place.rpartition(b"/")[0] for place in new}) == PARTITIONS


def flown(consumer: Consumer, results: dict[bytes, Message]) -> int:
    taken(consumer, results, "sluicegate-fire")
    return sum(int(dict(message.headers())["sluicegate-count"]) for message in results.values())


def shadow(file: Path) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["replay", str(file), "delays", "--shadow", "--from", "earliest", "--json"])
    assert done.exit_code in (0, 4), done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def planned(old: Path, new: str, *more: str) -> str:
    changed = old.with_name("changed.yaml")
    changed.write_text(new)
    done = CliRunner().invoke(main, ["plan", str(changed), "--against", str(old), "--from", "earliest", *more])
    assert done.exit_code in (0, 4), done.output
    return done.stdout


def plan(old: Path, new: str) -> dict[str, Any]:
    [agent] = json.loads(planned(old, new, "--json"))["agents"]
    replay: dict[str, Any] = agent["replay"]
    return replay


def rewound(file: Path, kafka: str, ns: str) -> str:
    """The last line of a replay that corrects."""
    create(kafka, f"{ns}-delays.corrected")
    mended = file.with_name("mended.yaml")
    mended.write_text(file.read_text().replace("count: 100 ", "count: 50 "))
    wanted = ["--rewind", "--from", "earliest", "--into", f"{ns}-delays.corrected", "--rate", "1000000"]
    done = CliRunner().invoke(main, ["replay", str(mended), "delays", *wanted])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()[-1].replace(f"{ns}-", "")


def counts(replay: dict[str, Any]) -> list[int]:
    return [replay[verdict] for verdict in ("identical", "changed", "missing", "extra", "uncertain")]


def begins(every: Sequence[Flight], count: int) -> set[tuple[str, int]]:
    """The carrier and the place of the first flight of each complete group."""
    numbers: defaultdict[str, int] = defaultdict(int)
    first: dict[str, int] = {}
    carriers = set()
    for number, flight in enumerate(every):
        if flight.delay is not None:
            first.setdefault(flight.carrier, number)
            numbers[flight.carrier] += 1
            if numbers[flight.carrier] == count:
                carriers.add((flight.carrier, first.pop(flight.carrier)))
                numbers[flight.carrier] = 0
    return carriers


def test_the_figures_of_every_flight_are_those_of_a_count(
    tmp_path: Path, kafka: str, ns: str, every: Sequence[Flight]
) -> None:
    (file, results), _ = ran(tmp_path, kafka, ns, every, "1h")
    live, new = begins(every, 100), begins(every, 50)
    assert len(results) == len(live)
    comparison = shadow(file)
    late = sum(flight.delay is None for flight in every)
    assert (comparison["records"], counts(comparison)) == (len(every), [len(live), 0, 0, 0, 0])
    assert (comparison["dead"]["identical"], sum(comparison["dead"].values())) == (late, late)
    assert comparison["open"]["identical"] == sum(comparison["open"].values()) > 0
    comparison = plan(file, file.read_text().replace("count: 100 ", "count: 50 "))
    assert counts(comparison) == [0, len(live & new), len(new - live), len(live - new), 0]
    shown = planned(file, file.read_text().replace("count: 100 ", "count: 50 ")).replace(f"{ns}-", "")
    lines = [
        line for line in shown.splitlines() if line.startswith(("  replay", "  dead", "  open groups", "  example"))
    ]
    assert "\n".join(lines[:4]) in (Path(__file__).parents[2] / "docs" / "changing-rules.md").read_text()
    assert rewound(file, kafka, ns) in (Path(__file__).parents[2] / "docs" / "correcting-results.md").read_text()
    comparison = plan(
        file, file.read_text().replace("flights: count", "flights: count\n        least: {min: dep_delay}")
    )
    assert counts(comparison) == [0, len(live), 0, 0, 0]


def test_twin_without_restored_groups_the_shadow_misses_results(
    tmp_path: Path, kafka: str, ns: str, every: Sequence[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies loses its open groups: the flights in them are in no result. The first flights are enough."""
    first, log = every[: len(every) // 6], tmp_path / "twin"
    with monkeypatch.context() as patch:
        for name, value in twins.environment("restore-groups", log).items():
            patch.setenv(name, value)
        (file, _), pids = ran(tmp_path, kafka, ns, first, "1h", whole=False)
    twins.check("restore-groups", log, pids)
    identical, changed, missing, extra, uncertain = counts(shadow(file))
    assert min(identical, missing) > 0
    assert (changed, extra, uncertain) == (0, 0, 0)


def held(kafka: str, ns: str, flights: int) -> list[list[Taken]]:
    """The flights that belong to groups, by partition."""
    portions, seen, consumer = [list[Taken]() for _ in range(PARTITIONS)], 0, reader(kafka, f"{ns}-flights")
    while seen < flights:
        for message in consumer.consume(10_000, 1.0):
            seen += 1
            if json.loads(message.value())["dep_delay"] is not None:
                at = message.timestamp()[1] / 1000
                portions[message.partition()].append(Taken(message.offset(), message.key(), at))
    consumer.close()
    return portions


def by_partition(results: Iterable[Message]) -> list[list[Result]]:
    outputs = [list[Result]() for _ in range(PARTITIONS)]
    for message in results:
        headers, document = dict(message.headers()), json.loads(message.value())
        (_, number, first), (_, _, last) = (headers[f"sluicegate-{name}"].split(b"/") for name in ("first", "last"))
        times = seconds(document["opened_at"]), seconds(document["closed_at"])
        outputs[int(number)].append(Result(int(first), int(last), document["count"], document["reason"], *times))
    return outputs


@pytest.mark.timeout(600 if WHOLE else 180)
def test_under_another_timeout_every_figure_is_that_of_another_program(
    tmp_path: Path, kafka: str, ns: str, every: Sequence[Flight]
) -> None:
    (old, new), after = (("30s", "10s"), 10.0) if WHOLE else (("2s", "500ms"), 0.5)
    (file, results), _ = ran(tmp_path, kafka, ns, every, old)
    reasons = Counter(dict(message.headers())["sluicegate-reason"] for message in results.values())
    assert reasons[b"timeout"] > 10
    comparison = shadow(file)
    assert counts(comparison) == [len(results), 0, 0, 0, 0]
    parts = zip(held(kafka, ns, len(every)), by_partition(results.values()), strict=True)
    expected = [sum(item) for item in zip(*(figures(*part, 100, after) for part in parts), strict=True)]
    comparison = plan(file, file.read_text().replace(f"after: {old}", f"after: {new}"))
    print(f"{old} -> {new}: identical, changed, missing, extra, uncertain: {expected}")
    assert counts(comparison) == expected
    assert expected[4] > 0
