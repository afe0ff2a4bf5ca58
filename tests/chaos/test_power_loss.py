"""The power fails under a worker and its SQLite file: what was sent was synced before, so the next one goes on from
it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.scene import Scene
from tests.chaos.test_gaps import halts
from tests.servers.disk import Disk, disk_or_skip
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]


@contextmanager
def on_a_disk(scene: MakeScene, folder: Path) -> Iterator[tuple[Scene, Disk]]:
    data = folder / "data"
    data.mkdir()
    app = scene(f"sqlite:///{data}/state.db")
    disk = disk_or_skip(data, folder / "kept")
    disk.keep()
    yield app, disk
    app.stop()
    disk.close()


def test_what_was_sent_survives_a_power_loss_and_nothing_is_lost_or_repeated(scene: MakeScene, tmp_path: Path) -> None:
    with on_a_disk(scene, tmp_path) as (app, disk):
        app.feed.start()
        worker = app.run("first", enter=disk.enter)
        app.flowing(10)
        worker.kill9()
        disk.lose_power()
        assert disk.synced > 0
        app.catch_up()
        app.run("second", enter=disk.enter)
        app.flowing()
        verdict = app.verdict()
    assert verdict.clean, verdict


def test_after_a_power_loss_on_a_disk_that_lied_the_partitions_halt_instead_of_sending_other_results(
    scene: MakeScene, tmp_path: Path
) -> None:
    with on_a_disk(scene, tmp_path) as (app, disk):
        app.feed.start()
        worker = app.run("first", enter=disk.enter)
        app.flowing()
        disk.lie()
        app.flowing(10)
        worker.kill9()
        disk.lose_power()
        second = app.run("second", enter=disk.enter)
        halted = wait_until(
            lambda: len(halted_partitions := halts(second)) == app.partitions and halted_partitions,
            60,
            "the halts",
            pause=0.1,
        )
        assert {row["error"] for row in halted} == {"store-rewound"}
