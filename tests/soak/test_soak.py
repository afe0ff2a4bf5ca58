"""The short soak: every kind of fault on three workers for 90 s, on a store that changes by date."""

import os
from pathlib import Path

from tests.selection import today
from tests.servers.shared import own_folder
from tests.soak.field import Setting
from tests.soak.report import as_markdown, write
from tests.soak.run import soak
from tests.stages import REPORTS

SECONDS, LEAST = 90.0, 70
STORES = ("redis", "sqlite", "postgresql")
LOGS = Path(__file__).resolve().parents[2] / ".server-logs" / "soak.log"


def test_nothing_is_lost_repeated_or_out_of_order_under_ninety_seconds_of_faults() -> None:
    """SLUICEGATE_SOAK_SEED and SLUICEGATE_SOAK_STORE repeat the run that a report tells of."""
    seed = int(os.environ.get("SLUICEGATE_SOAK_SEED", today()))
    store = os.environ.get("SLUICEGATE_SOAK_STORE") or STORES[today() % len(STORES)]
    report = soak(Setting(store, SECONDS, seed, pace=0.95), own_folder(), LOGS, LEAST)
    write(report, REPORTS / "soak")
    print(as_markdown(report))
    assert report.clean
    assert report.total >= LEAST
    assert report.last_ends == [0, 0, 0]
