"""`fuzzed`: what a test says of how much it tried; the run's total stands at its end, with the seed."""

from collections.abc import Callable

import pytest

from tests.fuzz.seeds import SEED


@pytest.fixture
def fuzzed(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """`fuzzed(n)`: so many hostile inputs were tried."""
    return lambda count: record_property("fuzzed", count)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    counts = [
        int(str(value))
        for report in reports
        for name, value in report.user_properties
        if name == "fuzzed" and report.when == "call"
    ]
    if counts:
        terminalreporter.write_line(
            f"fuzzed: {sum(counts):,} hostile inputs in {len(counts)} tests, SLUICEGATE_FUZZ_SEED={SEED}"
        )
