"""The product without a protection makes a history with an anomaly, and the checker finds it."""

from pathlib import Path

import pytest

from tests.histories.__main__ import KEPT, kept_logs, report
from tests.histories.checker.history import History
from tests.histories.run import judge, run
from tests.selection import today
from tests.servers.shared import own_folder
from tests.soak.field import Setting

SECONDS, PACE, PAUSE = 30.0, 2.0, 0.05
STOPPED = "before-commit=stop@60"
TWINS = [
    # A process stands still before a commit, and commits when another owner has gone on.
    ("fence", "lists", "redis", STOPPED, {"incompatible-order", "reused-identity", "repeated"}),
    # A row that is sent again has another number.
    ("row-identity", "queue", "sqlite", "kill-child", {"repeated"}),
    # A list begins anew behind a restart.
    ("restore-groups", "lists", "sqlite", "kill-child", {"internal", "incompatible-order", "lost-append"}),
    # The second agent counts what came twice.
    ("receive", "lists", "sqlite", "kill-child", {"duplicate-elements", "incompatible-order"}),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("without", "workload", "store", "fault", "kinds"), TWINS, ids=[twin[0] for twin in TWINS])
def test_the_checker_finds_what_happens_without(
    without: str, workload: str, store: str, fault: str, kinds: set[str], tmp_path: Path
) -> None:
    failpoint, faults = (fault, ["latency"]) if fault == STOPPED else ("", [fault])
    setting = Setting(store, SECONDS, today(), 1, PAUSE, PACE, without, failpoint=failpoint)
    made = run(setting, workload, own_folder(), faults, kept_logs(KEPT / f"twin-{without}.log"))
    assert report(made) > 0
    names = {anomaly.kind for anomaly in judge(made)}
    assert names & kinds, names
    made.write(tmp_path / "history.jsonl")
    assert judge(History.read(tmp_path / "history.jsonl")) == judge(made)
