"""`scope: shared` on three workers, one of which fails: every record of every partition is in one group and in no
other."""

import json
import os
import shutil
import signal
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.aggregation.group_faults import DEATHS
from sluicegate.streams.handlers.attempts import COMPANY
from sluicegate.streams.shared.shared_records import buffer_name
from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.progress import Progress
from tests.chaos.record import Seen
from tests.chaos.scene import COUNT, Scene
from tests.chaos.verdict import Verdict, dead_letters, distinct, exact_copies, good
from tests.chaos.worker import Worker
from tests.contracts.outbox.given import emptied
from tests.contracts.own import made_url
from tests.waiting import wait_until

MakeShared = Callable[[str], Scene]
PARTITIONS = 4


@pytest.fixture
def shared(scene: Callable[..., Scene], store_url: Callable[[str], str]) -> MakeShared:
    def make(kind: str) -> Scene:
        """On data of its own: the outbox belongs to the whole store."""
        store = kind
        if kind != "sqlite":
            emptied(store := made_url("shared", kind, store_url(kind)))
        app = scene(store, PARTITIONS, collect=True, pause=0.1)
        app.feed.spread = True
        app.spec["agents"]["sums"]["scope"] = "shared"
        app.spec["outbox"] = {"lanes": 2, "lease": "2s", "poll": "100ms"}
        return app

    return make


def judge_shared(inputs: Sequence[Seen], outputs: Sequence[Seen], dead: Sequence[Seen]) -> Verdict:
    """By the values, which tell all records apart: each good one in exactly one group of its key, no group above its
    count."""
    verdict = Verdict()
    counted = {record.place: record for record in inputs if good(record)}
    refused = {record.place: record for record in inputs if record.place not in counted}
    exact_copies([*outputs, *dead], verdict)
    dead_letters(counted, refused, distinct(dead), verdict)
    covered: Counter[tuple[bytes | None, int]] = Counter()
    for fire in distinct(outputs):
        verdict.groups += 1
        document = json.loads(fire.value or b"{}")
        covered.update((fire.key, value) for value in document["all"])
        honest = (document["count"], document["total"]) == (len(document["all"]), sum(document["all"]))
        if not honest or document["count"] > COUNT or (document["reason"] == "count") != (document["count"] == COUNT):
            verdict.lost.append(
                f"group {fire.id} says {document['count']} records, {document['reason']}, and has "
                f"{len(document['all'])}"
            )
    for record in counted.values():
        value = json.loads(record.value or b"{}")["v"]
        times = covered[record.key, value]
        problems = verdict.lost if not times else verdict.duplicate if times > 1 else None
        if problems is not None:
            problems.append(f"input {record.place}: value {value} of {record.key!r} is in {times} groups")
    return verdict


def under_fault(app: Scene, cell: Cell, without: str = "") -> Verdict:
    """Two healthy workers and a faulty one."""
    healthy = [app.run(f"healthy-{number}", without=without) for number in range(2)]
    app.feed.start()
    app.flowing()
    faulty = app.run("faulty", cell.fault, without)
    pid = faulty.wait_hit()
    if cell.kind == "stop":
        wait_until(lambda: _have_all(app, healthy), 40, "the takeover", pause=0.1)
        app.flowing(2)
        os.kill(pid, signal.SIGCONT)
    app.flowing()
    app.feed.stop()
    app.catch_up()

    def settled() -> bool:
        app.draw(0.1)
        return app.progress.complete(0, False)

    if not without:
        try:
            wait_until(settled, 90, "the end of the work", pause=0)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {app.progress}, {_held(app)}") from None
    else:
        wait_until(lambda: _rests(app), 60, "an empty buffer", pause=0.5)
    app.stop()
    app.catch_up()
    return judge_shared(app.records("in"), app.records("out"), app.records("dead"))


def _have_all(app: Scene, workers: Sequence[Worker]) -> bool:
    rows = [row for worker in workers for row in worker.partitions()]
    return {row["number"] for row in rows if row["state"] == "running"} == set(range(app.partitions))


def _held(app: Scene) -> str:
    """What the store still has."""
    store: Any = open_store(app.store, app=app.name)
    with closing(store):
        pending, sent = (store.outbox.count(state) for state in ("pending", "dispatched"))
        return f"{store.buffer.count(buffer_name(app.name, 'sums'))} in the buffer, {pending} rows pending, {sent} sent"


def _rests(app: Scene) -> bool:
    """Everything is read, and nothing comes out any more."""
    before = len(app.records("out"))
    for _ in range(40):
        app.draw(0.1)
    return len(app.records("out")) == before


@pytest.mark.parametrize("cell", cells.shared(), ids=str)
def test_each_record_is_in_one_group_of_the_shared_buffer_when_a_worker_fails_at(
    shared: MakeShared, cell: Cell
) -> None:
    verdict = under_fault(shared(cell.store), cell)
    assert verdict.clean, verdict


def test_the_judge_finds_records_counted_twice_without_the_watermark(shared: MakeShared) -> None:
    verdict = under_fault(shared("redis"), Cell("shared-inserted", "stop", "redis", cells.SHARED_NTH), "watermark")
    assert verdict.duplicate, verdict


def of_a_sending(record: Seen) -> tuple[int, int]:
    """What a handler sends names no partition."""
    document = json.loads(record.value or b"{}")
    return document["all"][0] % PARTITIONS, document["count"]


def killer(app: Scene) -> list[Worker]:
    """One group ends the process of whoever fires it; others are in hand beside it."""
    shutil.copy(Path(__file__).with_name("poison.py"), app.folder / "chaos_poison.py")
    app.spec["agents"]["sums"] |= {"handler": "chaos_poison:forward", "retry": {"attempts": 3}}
    app.progress = Progress(app.name, of_a_sending)
    running = [app.run(f"worker-{number}") for number in range(2)]
    app.feed.start()
    app.flowing()
    app.feed.one(b"deadly", b'{"v": -1}', 0)
    return running


def letters(app: Scene) -> list[Seen]:
    """Of groups."""
    return [letter for letter in app.records("dead") if letter.headers["sluicegate-dead-reason"] == "handler-failed"]


@pytest.mark.parametrize("store", cells.stores())
def test_a_handler_that_ends_its_process_costs_its_own_group_alone(shared: MakeShared, store: str) -> None:
    app = shared(store)
    workers = killer(app)
    wait_until(lambda: app.draw(0.1) or letters(app), 150, "the dead letter", pause=0)
    app.flowing()
    app.feed.stop()
    app.catch_up()
    wait_until(lambda: app.draw(0.1) or app.progress.complete(1, False), 90, "the end of the work", pause=0)
    app.stop()
    app.catch_up()
    assert [json.loads(letter.value or b"{}")["all"] for letter in letters(app)] == [[-1]]
    deadly = [record for record in app.records("in") if record.key == b"deadly"]
    others = [letter for letter in app.records("dead") if letter not in letters(app)]
    verdict = judge_shared([record for record in app.records("in") if record not in deadly], app.records("out"), others)
    assert verdict.clean, verdict
    assert sum(len(worker.events("worker.ended", code=-9)) for worker in workers) == COMPANY + DEATHS


def buffered(worker: Worker) -> list[float]:
    """What /metrics says of the buffer."""
    port = worker.wait("http.listening")[0]["port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    ours = [line for line in lines if line.startswith('sluicegate_buffered_records{agent="sums"')]
    return [float(line.rsplit(" ", 1)[1]) for line in ours]


def test_one_of_the_workers_shows_how_many_records_are_in_the_buffer(shared: MakeShared) -> None:
    app = shared("sqlite")
    app.spec["agents"]["sums"]["aggregate"] |= {"count": 1_000, "timeout": {"after": "10m"}}
    workers = [app.run(f"worker-{number}") for number in range(2)]
    app.feed.send(200)
    app.catch_up()
    good_ones = sum(map(good, app.records("in")))

    def shown() -> bool:
        return [value for worker in workers for value in buffered(worker)] == [good_ones]

    wait_until(shown, 60, f"one gauge of {good_ones} records", pause=0.5)
    app.stop()
