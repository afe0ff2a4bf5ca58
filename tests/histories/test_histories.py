"""Short histories of each workload on each store, under every fault that the servers can meet."""

import pytest

from tests.histories.__main__ import KEPT, kept_logs, report
from tests.histories.run import run
from tests.histories.workloads import WORKLOADS
from tests.selection import today
from tests.servers.shared import own_folder
from tests.soak.field import Setting

SECONDS, PACE, PAUSE = 40.0, 2.0, 0.05
CASES = [
    *((name, store, 1) for name, workload in WORKLOADS.items() for store in workload.stores),
    ("lists", "redis", 3),
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("workload", "store", "brokers"), CASES, ids=lambda part: str(part))
def test_a_history_under_faults_has_no_anomaly(workload: str, store: str, brokers: int) -> None:
    """The day chooses the faults. A history with an anomaly is kept; `python -m tests.histories --judge FILE` judges it
    again."""
    setting = Setting(store, SECONDS, today(), brokers, PAUSE, PACE)
    name = f"test-{workload}-{store}-{brokers}"
    made = run(setting, workload, own_folder(), logs=kept_logs(KEPT / f"{name}.log"))
    made.write(KEPT / f"{name}.jsonl")
    assert report(made) == 0
    assert made.about["missing"] == 0
    assert made.about["ends"] == [0, 0, 0]
    assert sum(made.about["faults"].values()) >= 8
