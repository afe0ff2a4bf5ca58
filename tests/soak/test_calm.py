"""Load without any fault, through two agents of which one reads the results of the other: no row is written twice."""

from pathlib import Path

from tests.selection import today
from tests.servers.shared import own_folder
from tests.soak.field import Setting
from tests.soak.run import soak

LOGS = Path(__file__).resolve().parents[2] / ".server-logs" / "soak-calm.log"


def test_without_a_fault_no_row_is_written_twice() -> None:
    report = soak(Setting("redis", 20.0, today(), calm=True), own_folder(), LOGS)
    assert report.clean
    assert report.messages > 2_000
    assert report.copies == 0
