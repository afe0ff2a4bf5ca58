"""Gaps are loud: the damaged partition halts under its own name, health goes red, the others go on."""

from collections.abc import Callable

import pytest
import redis

from tests.chaos import cells
from tests.chaos.gaps import EVERYWHERE, GAPS, entry_missing, wiped
from tests.chaos.scene import Scene
from tests.chaos.verdict import Verdict
from tests.chaos.worker import Worker
from tests.servers import Server, Valkey
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
CASES = [
    (code, store)
    for number, code in enumerate(GAPS)
    for store in (cells.STORES if cells.WHOLE else [cells.STORES[number % 2]])
]


def spoiled(scene: Scene, damage: Callable[[Scene], None], without: str = "") -> Worker:
    """Work, an orderly end with groups open, damage, a new start."""
    first = scene.run("first")
    scene.feed.start()
    scene.flowing()
    first.terminate()
    assert first.exit_code() == 0
    damage(scene)
    return scene.run("second", without=without)


@pytest.mark.parametrize(("code", "store"), CASES)
def test_a_partition_halts_loudly_with_its_code(scene: MakeScene, code: str, store: str) -> None:
    app = scene(store)
    worker = spoiled(app, GAPS[code])
    halted = {
        (row["number"], row["error"]) for row in wait_until(lambda: halts(worker), 60, f"a halt {code}", pause=0.1)
    }
    assert halted == ({(0, code), (1, code)} if code in EVERYWHERE else {(0, code)})
    status, ready = worker.get("/readyz")
    assert status == 503
    assert code in str(ready)
    if code not in EVERYWHERE:
        goes_on(app)
    assert {row["number"] for row in halts(worker)} == {number for number, _ in halted}


def test_a_store_that_is_flushed_under_load_halts_every_partition(
    scene: MakeScene, own_server: Callable[..., Server]
) -> None:
    server = own_server(Valkey)
    app = scene(server.url)
    worker = app.run()
    app.feed.start()
    app.flowing(40)
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    halted = wait_until(
        lambda: len(halted_partitions := halts(worker)) == app.partitions and halted_partitions,
        60,
        "the halts",
        pause=0.1,
    )
    assert {row["error"] for row in halted} == {"store-wiped"}
    assert worker.get("/readyz")[0] == 503


def halts(worker: Worker) -> list[dict[str, object]]:
    rows = worker.partitions()
    settled = rows and all(row["state"] in ("running", "halted") for row in rows)
    return [row for row in rows if row["state"] == "halted"] if settled else []


def goes_on(app: Scene) -> None:
    """Partition 1 fires, partition 0 nothing more."""
    app.catch_up()
    before = dict(app.progress.fired)

    def fired() -> bool:
        app.draw()
        return app.progress.fired[1] >= before[1] + 20

    wait_until(fired, 40, "results of the other partition", pause=0)
    assert app.progress.fired[0] == before[0]


@pytest.mark.parametrize(
    ("without", "damage", "finding"),
    [("claim-checks", wiped, "duplicate"), ("restore-numbers", entry_missing, "lost duplicate")],
)
def test_the_judge_finds_what_happens_without(
    scene: MakeScene, without: str, damage: Callable[[Scene], None], finding: str
) -> None:
    app = scene("sqlite")
    spoiled(app, damage, without)
    verdict: Verdict = app.verdict(settle=20.0)
    assert any(getattr(verdict, name) for name in finding.split()), verdict
