"""A file with another `compute` starts under thousands of open groups, and its process is killed while it ends them.

No group is filled by two rules, and each record is in one result.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.scene import Scene
from tests.chaos.verdict import distinct, span
from tests.chaos.worker import Worker
from tests.mutation.engine import GUARDS
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
KEYS = 2_500  # open groups: three commits
FLUSH = ("--flush",)
PROJECT = Path(__file__).resolve().parents[2]
NAMED = "the row names the groups of an earlier rule until they have ended"
"""The guard that the twin takes out."""


def send(app: Scene, first: int, times: int = 1) -> None:
    """So many records of each key; the fields that the files add up tell from which file a sum is."""
    producer = Producer({"bootstrap.servers": app.bootstrap, "linger.ms": 20, "log_level": 0})
    for number in range(first, first + KEYS * times):
        producer.produce(f"{app.name}.in", json.dumps({"v": 1, "w": 1000}).encode(), b"%d" % (number % KEYS), 0)
        producer.poll(0)
    assert producer.flush(60) == 0


def changed(make: MakeScene, store: str) -> Scene:
    """Each key has an open group that adds up `v`. The next file adds up `w`; two more records of each key wait."""
    app = make(store, partitions=1)
    compute: dict[str, Any] = {"total": {"sum": "v"}}
    sums = {"from": f"{app.name}.in", "aggregate": {"count": 2, "compute": compute}, "to": {"topic": f"{app.name}.out"}}
    app.spec["agents"] = {"sums": sums}
    send(app, 0)
    before = app.run("before")
    wait_until(lambda: [row["offset"] for row in before.partitions()] == [KEYS], 60, "open groups")
    before.terminate()
    assert before.exit_code() == 0
    compute["total"] = {"sum": "w"}
    send(app, KEYS, times=2)
    return app


def totals(app: Scene, worker: Worker) -> Counter[tuple[str, int, float]]:
    """Reason, count and total of all results, once everything is read."""
    wait_until(lambda: [row["offset"] for row in worker.partitions()] == [3 * KEYS], 90, "the end of the input")
    app.stop()
    app.catch_up()
    results = distinct(app.records("out"))
    assert len({span(result) for result in results}) == len(results)
    documents = [json.loads(result.value or b"") for result in results]
    return Counter((document["reason"], document["count"], document["total"]) for document in documents)


WANTED = Counter({("manual", 1, 1): KEYS, ("count", 2, 2000): KEYS})
KILLS = ("before-commit", "after-commit")


@pytest.mark.parametrize(
    "cell", [Cell(point, "kill", store, 2) for point in KILLS for store in cells.stores()], ids=str
)
def test_no_group_is_filled_by_two_rules_when_the_process_that_ends_them_is_killed(
    scene: MakeScene, cell: Cell
) -> None:
    app = changed(scene, cell.store)
    worker = app.run("after", cell.fault, options=FLUSH)
    worker.wait_hit()
    assert totals(app, worker) == WANTED


def mutated(folder: Path) -> Path:
    """A copy of the product without the guard."""
    for name in ("sluicegate", "streams", "connectors", "schemas"):
        shutil.copytree(PROJECT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    [guard] = [guard for guard in GUARDS if guard.promise == NAMED]
    text = (folder / guard.file).read_text()
    assert text.count(guard.text) == 1
    (folder / guard.file).write_text(text.replace(guard.text, guard.instead))
    return folder


def test_without_the_row_that_names_them_the_groups_that_are_left_are_lost(scene: MakeScene, tmp_path: Path) -> None:
    app = changed(scene, "sqlite")
    worker = app.run(
        "after", "after-commit=kill@1", options=FLUSH, environ={"PYTHONPATH": str(mutated(tmp_path / "tree"))}
    )
    worker.wait_hit()
    sums = totals(app, worker)
    assert sums.keys() == WANTED.keys()
    assert 0 < sums["manual", 1, 1] < KEYS


def test_the_groups_that_are_left_after_a_kill_end_without_the_option(scene: MakeScene) -> None:
    """The deployment holds what was decided."""
    app = changed(scene, "sqlite")
    app.run("after", "after-commit=stop@1", options=FLUSH).wait_hit()
    app.workers[-1].kill9()
    assert totals(app, app.run("again")) == WANTED
