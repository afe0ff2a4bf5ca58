"""`delivery: transactional`: what a reader of committed records finds is there once, whoever dies, sleeps or comes back meanwhile."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.scene import Scene
from tests.chaos.test_cells import under_fault
from tests.servers import Kafka, Server

MakeScene = Callable[..., Scene]
OwnServer = Callable[..., Server]


def transactional(scene: Scene) -> Scene:
    scene.spec["agents"]["sums"]["delivery"] = "transactional"
    return scene


@pytest.mark.parametrize("cell", cells.transactional(), ids=str)
def test_no_committed_record_is_lost_or_there_twice_when_a_worker_fails_at(scene: MakeScene, cell: Cell) -> None:
    verdict = under_fault(transactional(scene(cell.store)), cell)
    assert verdict.clean, verdict
    assert verdict.copies == 0, verdict


@pytest.mark.parametrize(("unsafe", "cell"), cells.without_transactions(), ids=str)
def test_records_come_twice_without(scene: MakeScene, unsafe: str, cell: Cell) -> None:
    verdict = under_fault(transactional(scene(cell.store)), cell, unsafe)
    assert verdict.copies > 0, verdict


def test_a_coordinator_that_dies_in_a_transaction_is_waited_for_and_nothing_comes_twice(scene: MakeScene, own_server: OwnServer) -> None:
    server = own_server(Kafka)
    app = transactional(scene("sqlite", bootstrap=server.url, kafka={"reconnect.backoff.max.ms": 500}))
    worker = app.run("faulty", "txn-produced=stop@10")
    app.feed.start()
    pid = worker.wait_hit()
    server.kill9()
    os.kill(pid, signal.SIGCONT)
    server.restart()
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert verdict.copies == 0, verdict
    assert worker.events("worker.started") == worker.events("worker.started", pid=pid), "the worker was started anew"
