"""`on_error: {stop_above}` on a real broker, with kill -9 on the way: the partition halts, each bad record has one dead
letter, and a restart goes on at the next record. Without it the topic of dead letters is flooded."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.conftest import scene, store_url  # noqa: F401
from tests.chaos.scene import Scene
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
GOOD, BAD = 40, 60


def started(scene: MakeScene, store: str, stop_above: str | None) -> Scene:  # noqa: F811
    """Good records, then bad ones."""
    app = scene(store, partitions=1)
    agent: dict[str, Any] = app.spec["agents"]["sums"]
    agent["aggregate"] = {"count": 1, "compute": {"total": {"sum": "v"}}}
    agent["on_error"] = {"stop_above": stop_above} if stop_above else {}
    for number in range(GOOD):
        app.feed.one(b"k", json.dumps({"v": number}).encode(), 0)
    flood(app)
    return app


def flood(app: Scene) -> None:
    for _ in range(BAD):
        app.feed.one(b"k", b"{nonsense", 0)


def letters(app: Scene) -> list[int]:
    """The offsets of the dead letters, each as often as it has an id of its own."""
    app.catch_up()
    dead_letters = {
        (seen.headers["sluicegate-id"], int(seen.headers["sluicegate-dead-offset"])) for seen in app.records("dead")
    }
    return sorted(offset for _, offset in dead_letters)


def totals(app: Scene) -> list[int]:
    app.catch_up()
    return sorted({json.loads(record.value or b"{}")["total"] for record in app.records("out")})


RUNS = [
    ("sqlite", ""),
    ("sqlite", "before-commit=kill"),
    ("sqlite", "after-commit=kill"),
    ("postgresql", "acked-not-recorded=kill@30"),
]


@pytest.mark.parametrize(("store", "fault"), RUNS)
def test_a_flood_halts_the_partition_and_a_restart_goes_on(scene: MakeScene, store: str, fault: str) -> None:  # noqa: F811
    app = started(scene, store, "30 of 10m")
    first = app.run(fault=fault)
    if fault:
        first.wait_hit()
        first.kill9()
        flood(app)
        first = app.run("second")
    [halted] = first.wait("partition.halted", code="dead-letters-stopped")
    assert f"agent sums, {app.name}.in/0, before offset" in halted["error"]
    assert "the most frequent cause is undecodable" in halted["error"]
    wait_until(lambda: first.get("/readyz")[0] == 503, 10, "not ready", pause=0.2)
    taken = len(letters(app))
    assert letters(app) == list(range(GOOD, GOOD + taken))
    first.terminate()
    assert first.exit_code() == 0
    sent = BAD * (2 if fault else 1)
    app.feed.one(b"k", json.dumps({"v": GOOD}).encode(), 0)
    app.spec["agents"]["sums"]["on_error"] = {}
    app.run("mended")
    wait_until(lambda: totals(app) == list(range(GOOD + 1)), 40, "the rest", pause=0.2)
    assert letters(app) == list(range(GOOD, GOOD + sent))


def test_without_it_all_of_them_are_dead_letters(scene: MakeScene) -> None:  # noqa: F811
    app = started(scene, "sqlite", None)
    worker = app.run()
    wait_until(lambda: len(letters(app)) == BAD, 40, "the letters", pause=0.2)
    assert not worker.events("partition.halted")
