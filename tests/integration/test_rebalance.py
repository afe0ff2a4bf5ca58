"""Workers come, go and die while records flow: each record counts once, whoever has its partition."""

from collections.abc import Callable

import pytest

from tests.chaos.conftest import scene, store_url  # noqa: F401
from tests.chaos.scene import Scene

MakeScene = Callable[..., Scene]


def test_219_cooperative_workers_that_come_go_and_die_lose_and_repeat_nothing(scene: MakeScene) -> None:  # noqa: F811
    app = scene("redis", partitions=6)
    first = app.run("first")
    app.feed.start()
    app.flowing()
    second, third = app.run("second"), app.run("third")
    for run in (second, third):
        run.wait("partition.claimed")
    app.flowing()
    first.terminate()
    fourth = app.run("fourth")
    fourth.wait("partition.claimed")
    assert first.exit_code() == 0
    second.kill9()
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert not any(worker.events("partition.halted") for worker in app.workers)


def test_a_storm_of_restarts_ends_in_progress_and_without_a_dead_letter(scene: MakeScene) -> None:  # noqa: F811
    """Workers that leave as soon as they have a partition, again and again."""
    app = scene("sqlite", partitions=4)
    app.run("steady")
    app.feed.start()
    app.flowing()
    for number in range(3):
        passing = app.run(f"passing{number}")
        passing.wait("partition.claimed")
        passing.terminate()
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"partition.assignment.strategy": "range"}, id="eager"),
        pytest.param(
            {"group.protocol": "consumer", "session.timeout.ms": None, "heartbeat.interval.ms": None},
            id="consumer-protocol",
        ),
    ],
)
def test_other_ways_to_share_partitions_work_too(scene: MakeScene, settings: dict[str, str | None]) -> None:  # noqa: F811
    app = scene("sqlite", partitions=4, kafka=settings)
    first = app.run("first")
    app.feed.start()
    app.flowing()
    second = app.run("second")
    second.wait("partition.claimed", 2)
    app.flowing()
    first.terminate()
    assert first.exit_code() == 0
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict
