"""Processes on MongoDB that are killed, one after the other, inside the transaction of a leased step: after the last
kill all work is done within the lease and ten seconds."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.engine.build_shared import LEASE
from sluicegate.streams.errors import SluicegateError
from tests.chaos.scene import Scene
from tests.chaos.sendings import Sendings
from tests.chaos.test_sendings import MakeSendings, sendings  # noqa: F401
from tests.chaos.test_shared import MakeShared, judge_shared, shared  # noqa: F401
from tests.servers import MongoDB, Server
from tests.waiting import wait_until

KILLS, APART = 4, 2.5
WITHIN = 10.0


class Killer:
    """`environ` is that of the processes."""

    def __init__(self, folder: Path, twin: bool = False) -> None:
        self.folder = folder / "stands_still"
        self.folder.mkdir()
        shutil.copy(Path(__file__).with_name("stands_still.py"), self.folder / "sitecustomize.py")
        self.environ: Mapping[str, str] = {"PYTHONPATH": str(self.folder), "STANDS_STILL": str(self.folder)}
        if twin:
            self.environ = {**self.environ, "STANDS_STILL_TWIN": "1"}

    def kill(self) -> float:
        """One process, inside; returns when."""
        inside = self.folder / "inside"
        inside.unlink(missing_ok=True)
        (self.folder / "go").touch()
        wait_until(inside.exists, 60, "a process that stands still in a transaction")
        os.kill(int(inside.read_text()), signal.SIGKILL)
        return time.monotonic()

    def kills(self, times: int = KILLS) -> None:
        for _ in range(times):
            self.kill()
            time.sleep(APART)


def left(killed_at: float, lease: float) -> float:
    return killed_at + lease + WITHIN - time.monotonic()


@pytest.fixture
def own_mongodb(own_server: Callable[..., Server]) -> str:
    return own_server(MongoDB).url


def runs_shared(app: Scene, killer: Killer) -> None:
    for number in range(3):
        app.run(f"worker-{number}", environ=killer.environ)
    app.feed.start()
    app.flowing(timeout=90)


def all_fired(app: Scene, killed_at: float) -> None:
    def settled() -> bool:
        app.draw(0.1)
        return app.progress.complete(0, False)

    wait_until(settled, left(killed_at, LEASE.total_seconds()), f"the last group: {app.progress}", pause=0)


def test_three_workers_of_a_shared_scope_fire_everything(shared: MakeShared) -> None:  # noqa: F811
    app = shared("mongodb")
    killer = Killer(app.folder)
    runs_shared(app, killer)
    killer.kills()
    app.feed.stop()
    killed_at = killer.kill()
    app.catch_up()
    all_fired(app, killed_at)
    app.stop()
    app.catch_up()
    verdict = judge_shared(app.records("in"), app.records("out"), app.records("dead"))
    assert verdict.clean, verdict


def test_two_dispatchers_emit_thousands_of_timeouts(sendings: MakeSendings, tmp_path: Path) -> None:  # noqa: F811
    sent, killer = sendings("mongodb"), Killer(tmp_path)
    emit_under_kills(sent, killer)


def emit_under_kills(sent: Sendings, killer: Killer) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    due = [now + timedelta(milliseconds=5 * number) for number in range(4_000)]
    sent.written = [f"later:{number}" for number in range(len(due))]
    rows = [Timeout(uuid4(), sent.topic, at, b"k", name.encode()) for at, name in zip(due, sent.written, strict=True)]
    sent.store.timeouts.insert(*rows)
    for number in range(2):
        sent.run(f"dispatcher-{number}", environ=killer.environ)
    killer.kills()
    wait_until(lambda: datetime.now(UTC) > due[-1] - timedelta(seconds=1), 30, "the last timeouts")
    killed_at = killer.kill()

    def empty() -> bool:
        with suppress(SluicegateError):
            return bool(sent.store.timeouts.count() == 0)
        return False

    wait_until(empty, left(killed_at, 2.0), "the end of all timeouts")
    wait_until(lambda: sent.arrived() >= len(due), 60, "all messages")
    verdict = sent.verdict()
    assert verdict.clean, verdict
