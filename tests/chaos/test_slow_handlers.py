"""Slow handlers, sealed and run apart, under every fault: each message is sent once, in the order of its key, and
nobody waits for them."""

import os
import signal
from collections.abc import Callable

import pytest

from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.ledger import Ledger
from tests.chaos.test_cells import overtaken
from tests.chaos.verdict import Verdict

MakeLedger = Callable[..., Ledger]
SLOW = {"session": False, "concurrency": 4, "retry": {"attempts": 5, "backoff": "20ms..50ms"}}


def under_fault(app: Ledger, cell: Cell, without: str = "") -> Verdict:
    scene = app.scene
    healthy = scene.run("healthy", without=without)
    scene.feed.start()
    scene.flowing()
    faulty = scene.run("faulty", f"{cell.point}={cell.kind}@{cells.SLOW_NTH}", without)
    pid = faulty.wait_hit()
    if cell.kind == "stop":
        overtaken(scene, healthy)
        os.kill(pid, signal.SIGCONT)
    if without:
        return app.verdict(settle=20.0)
    scene.flowing()
    return app.verdict()


@pytest.mark.parametrize("cell", cells.slow(), ids=str)
def test_each_message_is_handled_and_sent_once_when_a_worker_fails_at(ledger: MakeLedger, cell: Cell) -> None:
    verdict = under_fault(ledger(cell.store, "forward", **SLOW), cell)
    assert verdict.clean, verdict


def test_the_judge_finds_messages_missing_when_what_was_sealed_is_not_restored(ledger: MakeLedger) -> None:
    cell = Cell("attempt-marked", "kill", "redis")
    verdict = under_fault(ledger(cell.store, "forward", **SLOW), cell, without="sealed")
    assert verdict.lost, verdict


def test_a_handler_slower_than_every_timeout_of_the_group_causes_no_rebalance(ledger: MakeLedger) -> None:
    """As one of ten minutes would with the timeouts that brokers have: here 3 s of silence end a member, and it works
    for 6."""
    app = ledger("sqlite", "check", "forward", kafka={"max.poll.interval.ms": 3000}, **SLOW)
    app.scene.feed.send(20)
    app.pay(do="hang", seconds=6.0)
    worker = app.scene.run()
    app.scene.feed.send(20)
    verdict = app.verdict()
    assert verdict.clean, verdict
    assert len(worker.events("partition.claimed")) == app.scene.partitions
