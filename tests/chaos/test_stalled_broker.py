"""`delivery: transactional`, and a broker that stands still while cursors are added to transactions: the loop goes
on."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from sluicegate.connectors.kafka.transactions import LATE, OPENING
from tests.chaos.scene import Scene
from tests.servers import Kafka, Server
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
OwnServer = Callable[..., Server]
LONG = {"session.timeout.ms": 60_000}


def times(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().split()] if path.exists() else []


def test_the_loop_goes_on_while_the_broker_stands_still(scene: MakeScene, own_server: OwnServer) -> None:
    server = own_server(Kafka)
    app = scene("sqlite", 4, bootstrap=server.url, kafka=LONG)
    app.spec["agents"]["sums"]["delivery"] = "transactional"
    out = app.folder / "turns"
    shutil.copy(Path(__file__).with_name("turn_times.py"), app.folder / "sitecustomize.py")
    worker = app.run("worker", environ={"PYTHONPATH": str(app.folder), "TURN_TIMES": str(out)})
    app.feed.spread = True
    app.feed.start()
    app.flowing()
    out.unlink(missing_ok=True)
    out.with_suffix(".hold").touch()
    wait_until(out.with_suffix(".held").exists, 20, "a transaction without its cursor")
    server.pause()
    out.with_suffix(".hold").unlink()
    failed = len(worker.events("relay.failed"))
    begun = time.monotonic()
    wait_until(lambda: len(worker.events("relay.failed")) > failed, 60, "the end of the call")
    took = time.monotonic() - begun
    server.resume()
    app.flowing(timeout=90)
    assert max(times(out), default=0.0) < 1.0
    assert times(out.with_suffix(".adds"))
    assert took < OPENING + LATE + 5
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert verdict.copies == 0, verdict
