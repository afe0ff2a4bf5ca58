"""What kills the process three times is a dead letter; what merely was there when it ended never is."""

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.connectors import open_store
from sluicegate.streams.contracts.values import Partition
from tests.chaos import cells
from tests.chaos.scene import Scene
from tests.chaos.verdict import Verdict

MakeScene = Callable[..., Scene]
QUICK = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}


def killer(scene: Scene, without: str = "") -> Verdict:
    """One record ends the process whenever a reducer sees it; others come before and after it."""
    shutil.copy(Path(__file__).with_name("poison.py"), scene.folder / "chaos_poison.py")
    scene.spec["agents"]["sums"]["aggregate"]["compute"] = {"total": {"reduce": "chaos_poison:total"}}
    scene.feed.send(600)
    scene.feed.one(b"k0", json.dumps({"v": 1, "kill": True, "said": "as it came"}).encode(), 0)
    scene.catch_up()
    scene.poison = frozenset({max(record.place for record in scene.records("in") if record.partition == 0)})
    scene.feed.send(600)
    worker = scene.run(without=without)
    if without:
        worker.wait("worker.ended", 5, code=-9)  # one more than it ever takes
    return scene.verdict(settle=0.1 if without else 90.0)


@pytest.mark.parametrize("store", cells.stores())
def test_a_record_that_killed_three_processes_becomes_a_dead_letter_and_the_rest_flows(
    scene: MakeScene, store: str
) -> None:
    app = scene(store, kafka=QUICK)
    verdict = killer(app)
    assert verdict.clean, verdict
    # A death in the middle of ordinary work leaves no mark; those that come right after a claim do.
    assert [event["code"] for event in app.workers[0].events("worker.ended")] in ([-9, -9, -9, 0], [-9, -9, -9, -9, 0])
    (letter,) = [letter for letter in app.records("dead") if letter.headers["sluicegate-dead-reason"] == "crash"]
    assert json.loads(letter.value or b"") == {"v": 1, "kill": True, "said": "as it came"}


def test_without_crash_marks_the_judge_finds_a_standstill(scene: MakeScene) -> None:
    verdict = killer(scene("sqlite", kafka=QUICK), without="crash-marks")
    assert verdict.lost, verdict


def exceptions(scene: Scene, without: str = "") -> Verdict:
    """Three processes one after the other end by an exception at the same offset, alive enough to say so."""
    scene.feed.send(300)
    worker = scene.run("faulty", "before-commit=raise@1*3", without)
    worker.wait_hit(3)
    return scene.verdict()


@pytest.mark.parametrize("store", cells.stores())
def test_exceptions_never_make_a_dead_letter_of_a_good_record(scene: MakeScene, store: str) -> None:
    verdict = exceptions(scene(store, partitions=1, kafka=QUICK))
    assert verdict.clean, verdict


def test_without_clearing_crash_marks_the_judge_finds_good_records_among_the_dead_letters(scene: MakeScene) -> None:
    verdict = exceptions(scene("sqlite", partitions=1, kafka=QUICK), without="clear-crash-mark")
    assert verdict.refused, verdict


def test_three_kills_of_an_idle_worker_do_not_count_against_the_next_record(scene: MakeScene) -> None:
    app = scene("sqlite", partitions=1, kafka=QUICK)
    worker = app.run()
    app.feed.send(60)
    app.flowing(1)
    for claims in (2, 3, 4):
        worker.wait("partition.claimed", claims - 1)
        worker.kill_child()
        worker.wait("partition.claimed", claims)
    app.feed.send(60)
    verdict = app.verdict()
    assert verdict.clean, verdict


@pytest.mark.parametrize("store", cells.stores())
def test_a_fencing_duel_ends_in_progress_and_without_a_dead_letter(scene: MakeScene, store: str) -> None:
    """Somebody else claims the partitions again and again, and leaves."""
    app = scene(store)
    worker = app.run()
    app.feed.start()
    app.flowing()
    other = open_store(app.store)
    for round in range(1, 6):
        worker.wait("partition.claimed", round * app.partitions)
        for number in range(app.partitions):
            other.claim(Partition(app.name, "sums", f"{app.name}.in", number), uuid.uuid4().hex, "the other one")
        worker.wait("partition.fenced", round * app.partitions)
    other.close()
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict
