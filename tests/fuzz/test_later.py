"""What a record holds ends in a dead letter or a result, whatever reads it later than intake: never in an error of the
engine, which counts like a death, and never in a retry without end."""

from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sluicegate.streams.aggregation import rule
from sluicegate.streams.config.loading import load
from sluicegate.streams.testing.driver import TestDriver
from tests.fuzz import later
from tests.fuzz.seeds import TIMES, drawn, replayable
from tests.mutation.twins import without

RECORDS = 60 * TIMES


def faults(feature: str, folder: Path, records: int = RECORDS, name: str = "") -> list[str]:
    """What went wrong with random records of this feature: errors of the engine, and records without an end."""
    file, random = folder / "app.yaml", drawn(f"later {feature} {name}")
    file.write_text(f"{later.HEAD}  {later.FEATURES[feature]}\n")
    loaded = load(file, {})
    assert loaded.app is not None, [str(each) for each in loaded.problems]
    with capture_logs() as lines, TestDriver(loaded.app, partitions=1) as driver:
        for number in range(records):
            if feature == "a table":
                driver.send("rows", later.record(random, number), key=str(number))
            driver.send("in", later.record(random, number), key=f"bad-{number}")
            driver.send("in", later.GOOD % number, key=f"good-{number}")
        driver.advance("1m")
        letters, results = driver.dead_letters(), driver.read("out")
        offsets = driver.offsets("a")
    events = [str(line) for line in lines if line["event"] in ("partition.fault", "group.fault", "partition.halted")]
    wrong = [f"{feature}: {line[:300]}" for line in events]
    wrong += [f"{feature}: a dead letter {each.reason}" for each in letters if each.reason == "crash"]
    if feature in later.UNCOUNTED:
        read = sum(number for (topic, _), number in offsets.items() if topic == "in")
        wrong += [] if read == 2 * records else [f"{feature}: {read} of {2 * records} records were read"]
    elif not wrong and (ended := len(results) + len(letters)) != 2 * records:
        wrong.append(f"{feature}: {ended} of {2 * records} records ended")
    return wrong


@pytest.mark.parametrize("feature", later.FEATURES)
def test_what_a_record_holds_ends_in_a_letter_or_a_result(
    feature: str, tmp_path: Path, fuzzed: Callable[[int], None]
) -> None:
    with replayable():
        assert faults(feature, tmp_path) == []
    fuzzed(RECORDS)


def test_twin_a_record_that_is_taken_unread_is_an_error_of_the_engine_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a dead letter the third time; where such errors are not counted, it is tried without end."""
    monkeypatch.setattr(rule, "_reads_whole", lambda agent: False)
    counted = faults("having", tmp_path)
    assert any("partition.fault" in fault for fault in counted)
    assert any("a dead letter crash" in fault for fault in counted)
    with without("group-faults"):
        endless = faults("having", tmp_path)
    assert len(endless) > 3 * len(counted)
    assert not any("a dead letter crash" in fault for fault in endless)
