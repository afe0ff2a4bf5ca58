"""`delivery: transactional`: what a reader of committed records finds is there once, whoever dies, sleeps or comes back
meanwhile."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.scene import Scene
from tests.chaos.test_cells import under_fault
from tests.chaos.verdict import Verdict
from tests.servers import Kafka, Server

MakeScene = Callable[..., Scene]
OwnServer = Callable[..., Server]
PATIENT = {"session.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500}
"""Nobody else takes over while the broker is away."""


def transactional(scene: MakeScene, cell: Cell, **options: Any) -> Scene:
    app = scene(cell.store, **options)
    app.spec["agents"]["sums"]["delivery"] = "transactional"
    return app


def without_its_coordinator(scene: MakeScene, cell: Cell, server: Server) -> Verdict:
    """The broker is killed while a transaction is open with all its rows, and comes back."""
    app = transactional(scene, cell, bootstrap=server.url, kafka=PATIENT)
    worker = app.run("faulty", f"txn-produced=stop@{cell.nth}")
    app.feed.start()
    pid = worker.wait_hit()
    server.kill9()
    os.kill(pid, signal.SIGCONT)
    server.restart()
    app.catch_up()
    app.flowing()
    verdict = app.verdict()
    assert worker.events("worker.started") == worker.events("worker.started", pid=pid), "the worker was started anew"
    return verdict


@pytest.mark.parametrize("cell", cells.transactional(), ids=str)
def test_no_committed_record_is_lost_or_there_twice_when_something_fails_at(
    scene: MakeScene, own_server: OwnServer, cell: Cell
) -> None:
    if cell.point == "coordinator":
        verdict = without_its_coordinator(scene, cell, own_server(Kafka))
    else:
        verdict = under_fault(transactional(scene, cell), cell)
    assert verdict.clean, verdict
    assert verdict.copies == 0, verdict


@pytest.mark.parametrize("cell", cells.without_cursor(), ids=str)
def test_without_the_cursor_records_are_there_twice_after(scene: MakeScene, cell: Cell) -> None:
    verdict = under_fault(transactional(scene, cell), cell, "relay-cursor")
    assert verdict.copies > 0, verdict
