"""What a record holds ends in a dead letter or a result, whatever reads it later than intake: never in an error of the
engine, which counts like a death, and never in a retry without end."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.streams.agent import App
from sluicegate.streams.aggregation import reader
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.config.loading import load
from sluicegate.streams.testing.driver import TestDriver
from sluicegate.streams.testing.outputs import ReadOutput
from tests.fuzz import later
from tests.fuzz.seeds import TIMES, drawn, replayable
from tests.mutation.twins import without

RECORDS = 60 * TIMES


EVENTS = ("partition.fault", "group.fault", "partition.halted", "shared.fault", "shared.not_completed")


def app_of(text: str, folder: Path) -> App:
    file = folder / "app.yaml"
    file.write_text(f"{later.HEAD}  {text}\n")
    loaded = load(file, {})
    assert loaded.app is not None, [str(problem) for problem in loaded.problems]
    return loaded.app


def told(name: str, lines: Sequence[Mapping[str, Any]], letters: Sequence[ReadOutput]) -> list[str]:
    """The errors of the engine."""
    wrong = [f"{name}: {str(line)[:300]}" for line in lines if line["event"] in EVENTS]
    return wrong + [f"{name}: a dead letter {letter.reason}" for letter in letters if letter.reason == "crash"]


def faults(feature: str, folder: Path, records: int = RECORDS, name: str = "") -> list[str]:
    """What went wrong with random records of this feature: errors of the engine, and records without an end."""
    app, random = app_of(later.FEATURES[feature], folder), drawn(f"later {feature} {name}")
    with capture_logs() as lines, TestDriver(app, partitions=1) as driver:
        for number in range(records):
            if feature == "a table":
                driver.send("rows", later.record(random, number), key=str(number))
            driver.send("in", later.record(random, number), key=f"bad-{number}")
            driver.send("in", later.GOOD % number, key=f"good-{number}")
        for _ in range(12):
            driver.advance("5s")  # a batch of the shared scope is tried again at the end of a step
        letters, results = driver.dead_letters(), driver.read("out")
        offsets = driver.offsets("a")
    wrong = told(feature, lines, letters)
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


def correlation_faults(name: str, folder: Path, records: int = RECORDS) -> list[str]:
    """As `faults`, with two legs: each record is in one result, or is a dead letter alone or with its group."""
    app, random = app_of(later.CORRELATIONS[name], folder), drawn(f"later correlation {name}")
    with capture_logs() as lines, TestDriver(app, partitions=1) as driver:
        for number in range(0, 2 * records, 2):
            for leg, part in (("left", 0), ("right", 1), ("left", 1), ("right", 0))[: 4 if "all" in name else 2]:
                driver.send(leg, later.record(random, number), key=f"bad-{number}")
                driver.send(leg, later.GOOD % (number + 1), key=f"good-{number}-{part}")
        driver.advance("2m")
        letters, results = driver.dead_letters(), driver.read("out")
        read = sum(count for leg in ("a.l", "a.r") for count in driver.offsets(leg).values())
    wrong = told(name, lines, letters)
    if (counted := ended(results) + ended(letters)) != read:
        wrong.append(f"{name}: {counted} of {read} records ended, {ended(letters)} of them in dead letters")
    return wrong


def ended(outputs: Sequence[ReadOutput]) -> int:
    """The records that these results or dead letters are about."""
    return sum(int(output.headers.get("sluicegate-count") or count_of(output.value)) for output in outputs)


def count_of(value: Any) -> int:
    """What the output of a handler says, which is the result that it got; 1 for a record."""
    return int(value["count"]) if isinstance(value, dict) and "count" in value else 1


@pytest.mark.parametrize("name", later.CORRELATIONS)
def test_what_the_record_of_a_leg_holds_ends_in_a_letter_or_a_result(
    name: str, tmp_path: Path, fuzzed: Callable[[int], None]
) -> None:
    with replayable():
        assert correlation_faults(name, tmp_path) == []
    fuzzed(RECORDS)


def test_twin_a_record_that_is_taken_unread_is_an_error_of_the_engine_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a dead letter the third time; where such errors are not counted, it is tried without end."""
    monkeypatch.setattr(reader, "_reads_whole", lambda agent: False)
    counted = faults("having", tmp_path)
    assert any("partition.fault" in fault for fault in counted)
    assert any("a dead letter crash" in fault for fault in counted)
    with without("group-faults"):
        endless = faults("having", tmp_path)
    assert len(endless) > len(counted)
    assert not any("a dead letter crash" in fault for fault in endless)


def test_twin_a_shared_group_with_a_record_that_was_taken_unread_is_an_error_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_reads_whole", lambda agent: False)
    counted = faults("shared: having", tmp_path)
    assert any("shared.fault" in fault for fault in counted)
    assert any("a dead letter crash" in fault for fault in counted)
    with without("shared-faults"):
        endless = faults("shared: having", tmp_path)
    assert not any("a dead letter crash" in fault for fault in endless)


def test_twin_a_record_of_a_leg_that_is_left_out_silently_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Groups, "refuse", lambda *_: None)
    [missed] = correlation_faults("having of fields", tmp_path)
    assert "records ended" in missed
