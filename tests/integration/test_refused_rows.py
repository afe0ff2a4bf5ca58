"""Outputs that a real broker will never take: a dead row, or with `on_error: {produce: stop}` a loud stop that loses
nothing."""

import json
import random
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.chaos.conftest import scene, store_url  # noqa: F401
from tests.chaos.scene import Scene
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
SMALL, LARGE = 2_000, 1_000_000  # bytes that the topic takes in one message
NOISE = random.Random(7).randbytes(3 * SMALL).hex()  # larger than SMALL even when it is compressed


def largest(app: Scene, size: int) -> None:
    """What the broker takes of a message of `out`."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, f"{app.name}.out")
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    )
    admin = AdminClient({"bootstrap.servers": app.bootstrap})
    [done] = admin.incremental_alter_configs([resource]).values()
    done.result(30)


def given(scene: MakeScene, produce: str) -> Scene:  # noqa: F811
    """Groups of one record, whose results hold the whole record: one of them is too large for the topic."""
    app = scene("sqlite", partitions=1)
    agent: dict[str, Any] = app.spec["agents"]["sums"]
    agent["aggregate"] = {"count": 1, "compute": {"total": {"sum": "v"}, "all": "collect"}}
    agent["on_error"] = {"produce": produce}
    largest(app, SMALL)
    for number in range(6):
        app.feed.one(b"k0", json.dumps({"v": number, "text": NOISE if number == 3 else ""}).encode(), 0)
    return app


def sent(app: Scene) -> list[int]:
    app.catch_up()
    return sorted({json.loads(record.value or b"{}")["total"] for record in app.records("out")})


def test_a_row_that_the_broker_refuses_stops_its_partition_and_goes_out_when_the_broker_takes_it(
    scene: MakeScene,  # noqa: F811
) -> None:
    app = given(scene, "stop")
    worker = app.run()
    [halted] = worker.wait("partition.halted", code="produce-stopped")
    assert f"for topic {app.name}.out" in halted["error"]
    wait_until(lambda: worker.get("/readyz")[0] == 503, 10, "not ready", pause=0.2)
    worker.terminate()
    assert worker.exit_code() == 0
    assert 3 not in sent(app)
    largest(app, LARGE)
    app.run("after")
    app.settle()
    assert sent(app) == [0, 1, 2, 3, 4, 5]
    assert not app.records("dead")


def test_without_stop_it_is_a_dead_row_and_the_others_go_out(scene: MakeScene) -> None:  # noqa: F811
    app = given(scene, "dead")
    worker = app.run()
    worker.wait("relay.row_dead")
    app.settle(timeout=20)
    assert sent(app) == [0, 1, 2, 4, 5]
    assert not worker.events("partition.halted")
