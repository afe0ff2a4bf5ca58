"""Sums of integers with more digits than Python writes or reads as text: they end in a dead letter, wherever they
are."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.aggregation.durable import entry
from sluicegate.streams.config.loading import load
from sluicegate.streams.reducers import unwritable
from sluicegate.streams.testing.driver import TestDriver
from tests.fuzz import later
from tests.unit.aggregation.turning import Turned, an_agent, record

LONGEST = b"9" * 4_300
SUM = "compute: {x: {sum: n}}"
WINDOW = "time: t, grace: 1s"
FEATURES = {
    "count": f"aggregate: {{count: 2, {SUM}}}",
    "timeout": f"aggregate: {{count: 3, timeout: 5s, {SUM}}}",
    "a field that may be missing": f"aggregate: {{count: 3, timeout: 5s, on_missing: ignore, {SUM}}}",
    "having": f"aggregate: {{count: 2, {SUM}}}, having: x > 1",
    "until": f"aggregate: {{until: group.count > 1 && string(group.x) != '', timeout: 5s, {SUM}}}",
    "tumbling": f"aggregate: {{window: {{tumbling: 10s, {WINDOW}}}, {SUM}}}",
    "session": f"aggregate: {{window: {{session: 10s, {WINDOW}}}, {SUM}}}",
    "handler": f"aggregate: {{count: 2, {SUM}}}, handler: 'tests.fuzz.handlers:passes'",
    "shared": f"scope: shared, aggregate: {{count: 2, {SUM}}}",
}


def reasons(feature: str, folder: Path) -> tuple[list[str], list[str]]:
    """The reasons of the dead letters of a group whose sum has 4,301 digits, and the log's events about the engine.
    A group of small numbers has its result."""
    file = folder / "app.yaml"
    file.write_text(f"{later.HEAD}  a: {{from: in, key: k, {FEATURES[feature]}, to: out}}\n")
    loaded = load(file, {})
    assert loaded.app is not None, [str(problem) for problem in loaded.problems]
    with capture_logs() as lines, TestDriver(loaded.app, partitions=1) as driver:
        for number in (LONGEST, LONGEST, b"1", b"1"):
            key = "small" if number == b"1" else "long"
            value = b'{"k":"%s","n":%s,"t":"2026-01-01T00:00:00Z"}' % (key.encode(), number)
            driver.send("in", value, key=key)
        driver.advance("3m")
        assert [(output.key, output.value["x"]) for output in driver.read("out")] == [("small", 2)]
        letters = driver.dead_letters()
    assert {letter.key for letter in letters} <= {"long"}
    faults = [str(line["event"]) for line in lines if "fault" in str(line["event"])]
    return [letter.reason for letter in letters], faults


@pytest.mark.parametrize("feature", FEATURES)
def test_a_sum_of_more_digits_than_text_may_have_is_an_overflow(feature: str, tmp_path: Path) -> None:
    assert reasons(feature, tmp_path) == (["overflow"], [])


def test_twin_in_decimal_the_open_group_cannot_be_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "hex", str, raising=False)
    with pytest.raises(AssertionError):
        reasons("timeout", tmp_path)


def test_the_open_group_is_kept_exactly() -> None:
    """Each record is in a commit of its own, and the group is read from the store after each one. The last record
    brings its sum back to 4,300 digits."""
    turned = Turned(an_agent(Aggregation(count=3, compute=(Reducer("x", "sum", "n"),))))
    for number, value in enumerate((b"5" + b"0" * 4_299, b"5" + b"0" * 4_299, b"-1")):
        turned.accept([record(number, b"a", b'{"n":%s}' % value)], 1.0)
        turned.commit(1.0)
        turned.restore()
    assert turned.fires[b"a"][0][-1] == {"x": int(LONGEST)}


def test_which_numbers_no_result_can_hold() -> None:
    beyond: list[Any] = [10**4_300, -(10**4_300), float("inf"), float("nan")]
    within: list[Any] = [10**4_300 - 1, 1 - 10**4_300, 1.7e308, True, None, "9" * 5_000]
    assert all(map(unwritable, beyond))
    assert not any(map(unwritable, within))
    assert all(map(str, within))
