"""The alert rules over series of many minutes, asked of promtool; and twins that it must find."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.monitoring.prometheus import ALERTS, binary

CASES = Path(__file__).with_name("rules_test.yml")


def judged(folder: Path, rules: str) -> subprocess.CompletedProcess[str]:
    (folder / "alerts.yml").write_text(rules)
    shutil.copy(CASES, folder)
    command = [binary("promtool"), "test", "rules", str(folder / CASES.name)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_rules_say_what_they_should(tmp_path: Path) -> None:
    done = judged(tmp_path, ALERTS.read_text())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("alert", "part", "instead"),
    [
        ("SluicegateDeadLetters", "sluicegate_records_dead_total unless", "sluicegate_records_consumed_total unless"),
        ("SluicegateDeadLetters", "increase(sluicegate_dead_rows_total", "increase(sluicegate_fires_total"),
        ("SluicegateForgedHeaders", "increase(sluicegate_headers_refused_total", "increase(sluicegate_fires_total"),
        ("SluicegateForgedHeaders", "_total unless", "_total and"),
        ("SluicegateLag", "sluicegate_consumer_lag_seconds) > 10", "sluicegate_consumer_lag_seconds) > 0"),
        ("SluicegateLag", "for: 5m", "for: 3m"),
        ("SluicegateOutboxOld", "for: 2m", "for: 15s"),
        ("SluicegateNotReady", "for: 2m", "for: 15s"),
        ("SluicegateGroupOverdue", "> 5", "> 0"),
    ],
)
def test_a_rule_that_is_wrong_is_found(tmp_path: Path, alert: str, part: str, instead: str) -> None:
    before, name, after = ALERTS.read_text().partition(f"- alert: {alert}\n")
    assert part in after
    done = judged(tmp_path, before + name + after.replace(part, instead, 1))
    assert done.returncode != 0
    assert alert in done.stderr + done.stdout
